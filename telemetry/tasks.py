"""Work that may wait; beat starts it as `telemetry.schedule` says. Twice is once."""

from __future__ import annotations

from celery import shared_task
from django.utils import timezone

from telemetry.retention import delete_expired, verify


@shared_task(name="telemetry.tasks.retention")
def retention() -> int:
    """Rows deleted."""
    return delete_expired(timezone.now())


@shared_task(name="telemetry.tasks.verify_rollups")
def verify_rollups() -> int:
    """Quarters of an hour whose sums drifted from the ledger."""
    return len(verify(timezone.now()))
