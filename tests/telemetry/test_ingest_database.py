"""Ingest over database connections that really die, and beside a rival that really holds the lock."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
import redis
from django.db import connection

from telemetry import events
from telemetry.ingest import LOCK, Ingest
from telemetry.models import LedgerEntry
from telemetry.state import LIVE_KEY, decode_state
from tests.telemetry.factories import FakeClock, finished

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.enable_socket]


@pytest.fixture
def other() -> Iterator[psycopg.Connection[Any]]:
    """A second connection to the test's database."""
    settings = connection.get_connection_params()
    names = ("dbname", "host", "port", "user", "password")
    with psycopg.connect(
        **{name: settings[name] for name in names if settings.get(name)}, autocommit=True
    ) as made:
        yield made


def ship(valkey: redis.Redis, request_id: str, sequence: int) -> None:
    fields: Any = {"s": "host-0", "q": sequence, "e": events.encode(finished(request_id))}
    valkey.xadd(events.USAGE_STREAM, fields)


def state(valkey: redis.Redis) -> Any:
    return decode_state(valkey.get(LIVE_KEY))  # type: ignore[arg-type]


def test_a_killed_connection_costs_nothing_and_the_lock_is_taken_again(
    valkey: redis.Redis, clock: FakeClock, other: psycopg.Connection[Any]
) -> None:
    ingest = Ingest(valkey, clock)
    assert ingest._become_writer()
    ingest.step()
    ship(valkey, "a", 1)
    ingest.step()
    mine = connection.connection.info.backend_pid
    other.execute("SELECT pg_terminate_backend(%s)", [mine])
    ship(valkey, "b", 2)
    for _ in range(4):
        ingest.step()
        clock.advance(1)
    assert sorted(entry.request_id for entry in LedgerEntry.objects.all()) == ["a", "b"]
    assert valkey.hget(events.WATERMARK_KEY, "host-0") == b"2"
    assert state(valkey).storing
    held = other.execute("SELECT pg_try_advisory_lock(%s)", [LOCK]).fetchone()
    assert held == (False,), "whoever writes holds the lock"


def test_a_rival_waits_in_silence_and_takes_over(
    valkey: redis.Redis, clock: FakeClock, other: psycopg.Connection[Any]
) -> None:
    other.execute("SELECT pg_advisory_lock(%s)", [LOCK])
    ingest = Ingest(valkey, clock)
    assert not ingest._become_writer()
    ship(valkey, "a", 1)
    for _ in range(3):
        ingest.step()
        clock.advance(1)
    assert not LedgerEntry.objects.exists()
    assert valkey.get(LIVE_KEY) is None
    other.execute("SELECT pg_advisory_unlock(%s)", [LOCK])
    for _ in range(6):
        ingest.step()
        clock.advance(1)
    assert LedgerEntry.objects.count() == 1
    assert state(valkey).seq > 0
