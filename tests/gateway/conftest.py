from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
import redis


@pytest.fixture
def valkey() -> Iterator[redis.Redis]:
    """The run's Valkey, empty."""
    client = redis.Redis.from_url(os.environ["REDIS_URL"])
    client.flushdb()
    yield client
    client.close()
