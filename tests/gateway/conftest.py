from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
import redis

from gateway.limits import scripts


@pytest.fixture
def valkey() -> Iterator[redis.Redis]:
    """The run's Valkey, empty, and known to the leases for long: a fresh one has its quarantine first."""
    client = redis.Redis.from_url(os.environ["REDIS_URL"])
    client.flushdb()
    info = client.info("server")
    assert isinstance(info, dict)
    client.hset(scripts.RUN_SINCE_KEY, mapping={"run": info["run_id"], "since_ms": 0})
    yield client
    client.close()
