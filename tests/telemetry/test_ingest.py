from __future__ import annotations

import json
from typing import Any

import pytest
import redis
from django.db import OperationalError

from telemetry import events
from telemetry.events import Finding
from telemetry.hooks import BudgetSubject, Hooks
from telemetry.ingest import Ingest
from telemetry.models import FindingRecord, GpuSampleRollup, LedgerEntry, StreamPosition
from telemetry.nvml import codec
from telemetry.nvml.codec import GpuSample, NodeSample
from telemetry.state import LIVE_KEY, decode_state
from tests.telemetry.factories import NOON_MS, FakeClock, finished, refused

pytestmark = [pytest.mark.django_db, pytest.mark.enable_socket]


def ship(valkey: redis.Redis, *made: events.Event, start: int = 1, spool: str = "host-0") -> None:
    for sequence, event in enumerate(made, start):
        fields: Any = {"s": spool, "q": sequence, "e": events.encode(event)}
        valkey.xadd(events.USAGE_STREAM, fields)


@pytest.fixture
def ingest(valkey: redis.Redis, clock: FakeClock) -> Ingest:
    made = Ingest(valkey, clock)
    assert made._become_writer()
    return made


def rounds(ingest: Ingest, clock: FakeClock, count: int = 3) -> None:
    for _ in range(count):
        ingest.step()
        clock.advance(1)


def test_usage_reaches_the_ledger_and_leaves_the_stream(
    ingest: Ingest, valkey: redis.Redis, clock: FakeClock
) -> None:
    ship(valkey, finished("a"), refused("b"), finished("c"))
    rounds(ingest, clock)
    assert LedgerEntry.objects.count() == 2
    assert valkey.hgetall(events.WATERMARK_KEY) == {b"host-0": b"3"}
    assert valkey.xlen(events.USAGE_STREAM) == 0
    pending: Any = valkey.xpending(events.USAGE_STREAM, events.USAGE_GROUP)
    assert pending["pending"] == 0


def test_what_was_read_and_not_acknowledged_comes_again_and_counts_once(
    ingest: Ingest, valkey: redis.Redis, clock: FakeClock
) -> None:
    rounds(ingest, clock, 1)
    ship(valkey, finished("a"), finished("b"))
    valkey.xreadgroup(events.USAGE_GROUP, "writer", {events.USAGE_STREAM: ">"})
    successor = Ingest(valkey, clock)
    assert successor._become_writer()
    rounds(successor, clock)
    assert LedgerEntry.objects.count() == 2


def test_entries_of_a_consumer_that_died_are_claimed(
    ingest: Ingest, valkey: redis.Redis, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("telemetry.reader.CLAIM_IDLE_MS", 0)
    rounds(ingest, clock, 1)
    ship(valkey, finished("a"))
    valkey.xreadgroup(events.USAGE_GROUP, "an older version", {events.USAGE_STREAM: ">"})
    clock.advance(60)
    rounds(ingest, clock, 4)
    assert LedgerEntry.objects.count() == 1


def test_a_redis_that_lost_its_memory_is_told_the_watermarks_at_once(
    ingest: Ingest, valkey: redis.Redis, clock: FakeClock
) -> None:
    ship(valkey, finished("a"), finished("b"))
    rounds(ingest, clock)
    valkey.flushdb()
    rounds(ingest, clock, 1)
    assert valkey.hget(events.WATERMARK_KEY, "host-0") == b"2"
    ship(valkey, finished("b"), finished("c"), start=2)
    rounds(ingest, clock)
    assert LedgerEntry.objects.count() == 3
    assert valkey.hget(events.WATERMARK_KEY, "host-0") == b"3"


def test_usage_waits_while_the_database_is_away_and_the_page_says_so(
    ingest: Ingest, valkey: redis.Redis, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise OperationalError("the server is gone")

    rounds(ingest, clock, 1)
    ship(valkey, finished("a"))
    with monkeypatch.context() as patch:
        patch.setattr("telemetry.ledger.write_requests", broken)
        patch.setattr("telemetry.ingest._drop_connection", lambda: None)
        ingest.step()
        patch.setattr("telemetry.ingest.Ingest._take_lock", broken)
        rounds(ingest, clock, 2)
        assert not decode_state(valkey.get(LIVE_KEY)).storing  # type: ignore[arg-type]
        assert valkey.hget(events.WATERMARK_KEY, "host-0") is None
    rounds(ingest, clock)
    assert LedgerEntry.objects.count() == 1
    assert decode_state(valkey.get(LIVE_KEY)).storing  # type: ignore[arg-type]


def test_the_live_state_beats_each_second_also_when_nothing_happens(
    ingest: Ingest, valkey: redis.Redis, clock: FakeClock
) -> None:
    seen = []
    for _ in range(4):
        ingest.step()
        seen.append(decode_state(valkey.get(LIVE_KEY)).seq)  # type: ignore[arg-type]
        clock.advance(1)
    assert seen == [1, 2, 3, 4]
    clock.advance(-0.5)
    ingest.step()
    assert decode_state(valkey.get(LIVE_KEY)).seq == 4  # type: ignore[arg-type]


def test_a_successor_goes_on_counting_where_the_last_writer_stopped(
    ingest: Ingest, valkey: redis.Redis, clock: FakeClock
) -> None:
    ship(valkey, finished("a"))
    rounds(ingest, clock, 3)
    before = decode_state(valkey.get(LIVE_KEY))  # type: ignore[arg-type]
    successor = Ingest(valkey, clock)
    successor._become_writer()
    successor.step()
    after = decode_state(valkey.get(LIVE_KEY))  # type: ignore[arg-type]
    assert after.seq == before.seq + 1
    assert after.epoch != before.epoch
    assert after.panel.recent == before.panel.recent


def test_usage_is_as_fresh_as_the_last_look_at_an_empty_stream(
    ingest: Ingest, valkey: redis.Redis, clock: FakeClock
) -> None:
    rounds(ingest, clock, 3)
    position = StreamPosition.objects.get(stream=events.USAGE_STREAM)
    assert position.as_of.timestamp() * 1000 == NOON_MS + 2000


def test_a_finding_of_a_gateway_or_an_agent_is_kept_and_counted(
    ingest: Ingest, valkey: redis.Redis, clock: FakeClock
) -> None:
    finding: dict[str, Any] = {
        "skill": "hardware_telemetry",
        "code": "xid_79",
        "severity": "critical",
        "subject": "GPU-0",
        "message": "The GPU fell off the bus.",
        "at_ms": NOON_MS,
    }
    for payload in (json.dumps(finding), "rubbish", json.dumps(finding)):
        valkey.xadd(events.FINDING_STREAM, {"e": payload})
    rounds(ingest, clock)
    kept = FindingRecord.objects.get()
    assert (kept.code, kept.count) == ("xid_79", 2)
    assert Finding(**finding).subject == kept.subject


def test_gpu_readings_become_minutes_and_no_restart_doubles_them(
    ingest: Ingest, valkey: redis.Redis, clock: FakeClock
) -> None:
    for value in (10.0, 30.0):
        gpu = GpuSample("GPU-0", 0, "H200", readings={"gpu_util": value})
        sample = NodeSample("node-a", NOON_MS, "ok", gpus=(gpu,))
        valkey.xadd(events.SAMPLE_STREAM, {"e": codec.encode(sample)}, id=f"{NOON_MS}-{int(value)}")
    valkey.xadd(events.SAMPLE_STREAM, {"e": b"rubbish"})
    rounds(ingest, clock)
    clock.advance(11)
    rounds(ingest, clock)
    successor = Ingest(valkey, clock)
    successor._become_writer()
    rounds(successor, clock, 15)
    row = GpuSampleRollup.objects.get()
    assert (row.low, row.high, row.mean, row.samples) == (10.0, 30.0, 20.0, 2)


def test_a_budget_window_is_primed_from_the_ledger_once(
    ingest: Ingest, valkey: redis.Redis, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    hooks = Hooks()
    hooks.register_budget_lookup(
        lambda budget_id: BudgetSubject("tenant", "ten_a") if budget_id == "bud_1" else None
    )
    monkeypatch.setattr("telemetry.priming.hooks", hooks)
    ship(valkey, finished("a"))
    rounds(ingest, clock, 2)
    key = f"ace:budget:bud_1:{NOON_MS}"
    valkey.hset(key, "run", "r1")
    asked = (f"bud_1:{NOON_MS}", f"bud_2:{NOON_MS}", "bud_1:soon", f"bud_1:{NOON_MS + 1}")
    valkey.rpush("ace:budget:prime", *asked)
    rounds(ingest, clock, 1)
    assert valkey.hget(key, "base_microusd") == b"230"
    assert not valkey.exists(f"ace:budget:bud_1:{NOON_MS + 1}"), "a window Redis lost stays lost"
    ship(valkey, finished("b"), start=2)
    rounds(ingest, clock, 2)
    valkey.rpush("ace:budget:prime", f"bud_1:{NOON_MS}")
    rounds(ingest, clock, 1)
    assert valkey.hget(key, "base_microusd") == b"230"


def test_names_in_redis_are_those_of_the_data_plane() -> None:
    from policies.schema import wire
    from telemetry import live, priming
    from telemetry.nvml import agent

    assert priming.PRIME_LIST == wire.BUDGET_PRIME_LIST
    assert priming.BUDGET_KEY == wire.BUDGET_KEY
    assert live.WORKERS_KEY == wire.WORKERS_KEY
    assert agent.SETTINGS_KEY == wire.AGENT_SETTINGS_KEY
