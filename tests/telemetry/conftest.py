"""A Redis of one's own: the run's Valkey, emptied before each test."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
import redis

from tests.telemetry.factories import FakeClock


@pytest.fixture
def valkey() -> Iterator[redis.Redis]:
    client = redis.Redis.from_url(os.environ["REDIS_URL"])
    client.flushdb()
    yield client
    client.flushdb()
    client.close()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()
