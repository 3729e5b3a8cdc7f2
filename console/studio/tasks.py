"""Work of the studio that waits for the beat."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

import redis
from celery import shared_task
from django.utils import timezone

from console.keys.feed import revocations_forget
from console.studio import services

REVOCATIONS_KEPT: Final = timedelta(days=30)
"""Longer than any worker may be away with an old snapshot on its disk."""


@shared_task
def snapshot_reannounce() -> None:
    try:
        services.snapshot_reannounce()
    except redis.RedisError:
        return  # it is away; the next beat comes in two seconds


@shared_task
def snapshots_prune() -> None:
    services.snapshots_prune()
    before = timezone.now() - REVOCATIONS_KEPT
    revocations_forget(int(before.timestamp() * 1000))
