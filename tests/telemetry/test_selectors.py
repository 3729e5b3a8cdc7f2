from __future__ import annotations

import datetime as dt
from collections import defaultdict
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase

from telemetry import events
from telemetry.rows import from_ms, to_ms
from telemetry.selectors import (
    Counters,
    UsageFilter,
    billed_since,
    recent_requests,
    request_detail,
    usage,
)
from telemetry.store import Store
from tests.telemetry.factories import NOON, NOON_MS, batch, delivery, finished, refused

pytestmark = pytest.mark.django_db
DAY = dt.timedelta(days=1)


def store(*made: events.Event) -> None:
    Store().write(batch(*(delivery(event, n) for n, event in enumerate(made, 1))), NOON)


def test_without_usage_there_is_one_row_of_zeroes_and_no_age() -> None:
    answer = usage(NOON, NOON + DAY)
    assert answer.total == Counters()
    assert answer.as_of is None
    assert usage(NOON, NOON + DAY, ["tenant"]).rows == []


def test_usage_is_grouped_filtered_and_dated() -> None:
    store(finished("a"), finished("b", tenant_id="ten_b", outcome="timeout"), finished("c"))
    answer = usage(NOON - DAY, NOON + DAY, ["tenant"])
    assert [(row.group["tenant"], row.counters.requests) for row in answer.rows] == [
        ("ten_a", 2),
        ("ten_b", 1),
    ]
    assert answer.total.billed_microusd == 690
    assert answer.total.failed_requests == 1
    assert answer.as_of == NOON
    only = UsageFilter(tenant_ids=["ten_b"])
    assert usage(NOON - DAY, NOON + DAY, only=only).total.requests == 1
    nobody = UsageFilter(tenant_ids=())
    assert usage(NOON - DAY, NOON + DAY, only=nobody).total.requests == 0


def test_a_period_may_begin_and_end_within_a_quarter_of_an_hour() -> None:
    moments = [NOON_MS - 1, NOON_MS, NOON_MS + 61_000, NOON_MS + 1_900_000]
    store(*(finished(f"r{n}", finished_at_ms=at) for n, at in enumerate(moments)))
    begin, end = NOON + dt.timedelta(seconds=1), NOON + dt.timedelta(seconds=1900)
    assert usage(begin, end).total.requests == 1
    assert usage(begin, end + dt.timedelta(seconds=1)).total.requests == 2
    assert usage(NOON, NOON).total.requests == 0


def test_a_period_without_zones_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="time zones"):
        usage(NOON.replace(tzinfo=None), NOON)


def test_spending_since_a_window_began_is_the_subjects_own() -> None:
    store(finished("a"), finished("b", key_id="key_b"), finished("c", tenant_id="ten_b"))
    assert billed_since(NOON, tenant_id="ten_a") == 460
    assert billed_since(NOON, key_id="key_b") == 230
    assert billed_since(NOON + DAY, tenant_id="ten_a") == 0


def test_a_request_is_found_with_its_attempts_and_only_by_those_who_may() -> None:
    store(finished("a", attempt=1, outcome="timeout"), finished("a", attempt=2), refused("b"))
    detail = request_detail("a")
    assert detail is not None
    assert [record.attempt for record in detail.records] == [1, 2]
    assert detail.billed_microusd == 460
    assert request_detail("a", ["ten_b"]) is None
    assert request_detail("nobody") is None
    other = request_detail("b", ["ten_a"])
    assert other is not None
    assert other.entries == []


def test_the_newest_requests_come_first_and_page_on() -> None:
    store(*(finished(f"r{n}", finished_at_ms=NOON_MS + n) for n in range(5)))
    first = recent_requests(2)
    assert [record.request_id for record in first] == ["r4", "r3"]
    assert [r.request_id for r in recent_requests(2, before=first[-1].finished_at)] == ["r2", "r1"]
    assert recent_requests(2, tenant_ids=[]) == []


ZONES = ["UTC", "Asia/Kathmandu", "Europe/Berlin", "Australia/Lord_Howe", "America/St_Johns"]
# Both days on which Europe changes its clocks, and one on which Lord Howe does.
MOMENTS = st.one_of(
    *(
        st.integers(start, start + 3 * 86_400_000)
        for start in (
            to_ms(dt.datetime(2026, 3, 28, tzinfo=dt.UTC)),
            to_ms(dt.datetime(2026, 10, 24, tzinfo=dt.UTC)),
            to_ms(dt.datetime(2026, 4, 4, tzinfo=dt.UTC)),
        )
    )
)
EVENTS = st.lists(
    st.builds(
        finished,
        tenant_id=st.sampled_from(["ten_a", "ten_b"]),
        model=st.sampled_from(["chat-small", "chat-large"]),
        finished_at_ms=MOMENTS,
        output_tokens=st.integers(0, 10_000),
    ),
    max_size=20,
)


class SumProperties(TestCase):
    """Σ rows = Σ ledger, for any period, zone and grouping."""

    @settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(EVENTS, MOMENTS, MOMENTS, st.sampled_from(ZONES), st.sampled_from(["day", "hour"]))
    def test_sums_equal_the_ledger_in_every_zone(
        self, made: list[events.RequestFinished], one: int, two: int, zone_name: str, unit: str
    ) -> None:
        made = [_renamed(event, n) for n, event in enumerate(made)]
        if made:
            store(*made)
        zone = ZoneInfo(zone_name)
        begin, end = from_ms(min(one, two)), from_ms(max(one, two))
        groups: Any = [unit, "model"]
        answer = usage(begin, end, groups, zone=zone)
        expected: dict[tuple[Any, str], int] = defaultdict(int)
        for event in made:
            if min(one, two) <= event.finished_at_ms < max(one, two):
                expected[_unit(event.finished_at_ms, zone, unit), event.model] += (
                    event.billed_microusd
                )
        found = {
            (_seen_unit(row.group[unit], zone), row.group["model"]): row.counters.billed_microusd
            for row in answer.rows
        }
        assert found == dict(expected)
        assert usage(begin, end).total == answer.total


def _renamed(event: events.RequestFinished, number: int) -> events.RequestFinished:
    import msgspec.structs

    return msgspec.structs.replace(event, request_id=f"req_{number}")


def _unit(unix_ms: int, zone: ZoneInfo, unit: str) -> Any:
    local = from_ms(unix_ms).astimezone(zone)
    if unit == "day":
        return local.date()
    return local.replace(minute=0, second=0, microsecond=0).isoformat()


def _seen_unit(value: Any, zone: ZoneInfo) -> Any:
    return value.astimezone(zone).isoformat() if isinstance(value, dt.datetime) else value
