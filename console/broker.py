"""The console's way to Redis: one lazy client a process, short time limits, never the place where truth stands."""

from __future__ import annotations

from functools import cache

import redis
from django.conf import settings

TIMEOUT_S = 1.0


@cache
def client() -> redis.Redis:
    """Raises redis.RedisError on use when the server is away; callers say what that means."""
    return redis.Redis.from_url(
        settings.REDIS_URL, socket_timeout=TIMEOUT_S, socket_connect_timeout=TIMEOUT_S
    )
