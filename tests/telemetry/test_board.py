from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase
from msgspec import structs

from telemetry.board import Board, Seen, seen_from_event
from telemetry.events import RequestFinished, RequestRefused
from telemetry.histogram import Histogram
from telemetry.live import restored_board
from telemetry.state import RECENT
from telemetry.store import Store
from tests.telemetry.factories import NOON, NOON_MS, batch, delivery, finished, refused

NOON_S = NOON_MS // 1000


def board_of(*seen: Seen) -> Board:
    board = Board()
    for item in seen:
        board.add(item)
    return board


def test_rates_are_means_of_the_last_ten_whole_seconds() -> None:
    made: list[RequestFinished | RequestRefused] = [
        finished("now", finished_at_ms=NOON_MS),
        finished("a", finished_at_ms=NOON_MS - 1),
        finished("b", finished_at_ms=NOON_MS - 9_999, outcome="timeout"),
        refused("c", at_ms=NOON_MS - 5000),
        finished("old", finished_at_ms=NOON_MS - 10_001),
    ]
    rates = board_of(*map(seen_from_event, made)).panel(NOON_S).rates
    assert (rates.requests, rates.errors, rates.refused) == (0.3, 0.1, 0.1)
    assert (rates.output_tokens, rates.billed_microusd) == (10.0, 46.0)


def test_a_caller_that_leaves_is_no_error_of_ours() -> None:
    seen = seen_from_event(finished(outcome="client_gone", finished_at_ms=NOON_MS - 1))
    assert board_of(seen).panel(NOON_S).rates.errors == 0


def test_latencies_are_those_of_answers_and_absent_without_any() -> None:
    slow = seen_from_event(finished("slow", outcome="timeout", latency_us=60_000_000))
    assert board_of(slow).panel(NOON_S).rates.latency_p95_us is None
    quick = [seen_from_event(finished(str(n), latency_us=1000 * n)) for n in range(1, 101)]
    rates = board_of(slow, *quick).panel(NOON_S + 1).rates
    assert rates.latency_p50_us == pytest.approx(50_000, rel=0.025)
    assert rates.latency_p95_us == pytest.approx(95_000, rel=0.025)


def test_what_ended_two_minutes_ago_leaves_the_figures_but_not_the_list() -> None:
    board = board_of(seen_from_event(finished()))
    assert board.panel(NOON_S + 1).series.requests[-1] == 1
    panel = board.panel(NOON_S + 121)
    assert sum(panel.series.requests) == 0
    assert panel.models == ()
    assert [row.request_id for row in panel.recent] == ["req_1"]


def test_the_list_holds_the_newest_only() -> None:
    made = [finished(f"r{n:03}", finished_at_ms=NOON_MS + n) for n in range(500)]
    recent = board_of(*map(seen_from_event, made)).panel(NOON_S).recent
    assert [row.request_id for row in recent] == [f"r{499 - n:03}" for n in range(RECENT)]


@given(st.lists(st.integers(1, 10**9), min_size=1, max_size=200), st.floats(0.01, 1.0))
def test_a_quantile_is_within_its_bin(values: list[int], share: float) -> None:
    histogram = Histogram()
    for value in values:
        histogram.add(value)
    rank = max(1, -int(-share * len(values) // 1))
    exact = sorted(values)[min(rank, len(values)) - 1]
    found = histogram.quantile(share)
    assert found is not None
    assert abs(found - exact) <= max(1, exact * 0.025)


EVENTS = st.lists(
    st.builds(
        finished,
        tenant_id=st.sampled_from(["ten_a", "ten_b", "ten_c"]),
        model=st.sampled_from(["chat-small", "chat-large"]),
        finished_at_ms=st.integers(NOON_MS - 200_000, NOON_MS),
        latency_us=st.integers(1, 10**7),
        first_token_us=st.integers(0, 10**6),
        outcome=st.sampled_from(["ok", "client_gone", "timeout"]),
        output_tokens=st.integers(0, 900),
    ),
    max_size=60,
)


class StaleAndEventsEqualReloaded(TestCase):
    """The law of live pages: what was shown plus what happened is what a reload shows."""

    @settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(EVENTS, st.randoms(), st.integers(0, 60))
    def test_a_board_fed_by_events_is_the_board_read_from_the_table(
        self, made: list[RequestFinished], dice: random.Random, cut: int
    ) -> None:
        items = [delivery(_named(event, f"r{n}"), n) for n, event in enumerate(made, 1)]
        dice.shuffle(items)
        store, fed = Store(), {None: Board(), "own": Board()}
        for part in (items[:cut], items[cut:]):
            if not part:
                continue
            for seen in store.write(batch(*part), NOON).seen:
                fed[None].add(seen)
                if seen.tenant_id != "ten_c":
                    fed["own"].add(seen)
            fed[None].panel(NOON_S - 1)  # a beat in between
        own = frozenset({"ten_a", "ten_b"})
        assert fed[None].panel(NOON_S) == restored_board(NOON_MS, None).panel(NOON_S)
        assert fed["own"].panel(NOON_S) == restored_board(NOON_MS, own).panel(NOON_S)


def _named(event: RequestFinished, request_id: str) -> RequestFinished:
    return structs.replace(event, request_id=request_id)
