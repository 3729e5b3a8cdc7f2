"""The revocation feed: the quickest road to the workers. What it misses, the next snapshot says again."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import redis

from console import broker
from policies.schema import wire

log = logging.getLogger(__name__)


def revocations_announce(digests: Sequence[str], at_ms: int) -> bool:
    """False when Redis is away: the beat repeats it from the database within seconds."""
    if not digests:
        return True
    try:
        pipe = broker.client().pipeline()
        pipe.zadd(wire.REVOCATIONS_KEY, dict.fromkeys(digests, at_ms))
        for digest in digests:
            pipe.publish(wire.REVOCATIONS_CHANNEL, digest)
        pipe.execute()
    except redis.RedisError as error:
        log.warning("revocation not announced yet: %s", type(error).__name__)
        return False
    return True


def revocations_forget(before_ms: int) -> None:
    """Old entries: by now every snapshot, also those on the workers' disks, is without these keys."""
    try:
        broker.client().zremrangebyscore(wire.REVOCATIONS_KEY, "-inf", before_ms)
    except redis.RedisError as error:
        log.warning("old revocations not dropped: %s", type(error).__name__)
