from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.contract.facts import Outcome, TenantFacts
from policies.skills.circuit_breaker import SKILL
from policies.skills.circuit_breaker.compile import compile_plan
from policies.skills.circuit_breaker.config import CircuitBreakerConfig
from policies.skills.circuit_breaker.runtime import SLUG, Circuit, CircuitBreaker
from tests.policies.examples import Example, examples, title
from tests.policies.host import FailingHost, FakeHost, HostDownError

EP = "ep_1"
NOBODY = TenantFacts("t")


class Bench:
    """A breaker with a clock: `send` asks, waits `took_ms`, and reports how it ended."""

    def __init__(self, host: FakeHost | None = None, **settings: Any) -> None:
        self.host = host or FakeHost()
        plan = compile_plan(CircuitBreakerConfig(mode="enforce", **settings), TenantFacts("t"))
        self.breaker = CircuitBreaker(plan, self.host)

    def allows(self) -> str:
        return self.breaker.allows(EP, self.host.now_ns)

    def ends(self, kind: Any, took_ms: float = 0, retry_after_ms: int = 0) -> None:
        outcome = Outcome(kind, int(took_ms * 1_000), retry_after_ms=retry_after_ms)
        self.breaker.on_outcome(EP, outcome, self.host.now_ns)

    def send(self, *kinds: Any, took_ms: float = 1) -> None:
        for kind in kinds:
            assert self.allows() == ""
            self.host.advance_ms(took_ms)
            self.ends(kind, took_ms)

    def opened(self) -> Bench:
        self.send(*["failure"] * 5)
        assert self.allows() == "circuit_open"
        return self


@pytest.mark.parametrize("example", examples("circuit_breaker"), ids=title)
def test_the_worked_examples_come_out_as_written(example: Example) -> None:
    host = FakeHost()
    breaker = CircuitBreaker(example.plan, host)
    for kind in example.expect["outcomes"]:
        assert breaker.allows(EP, host.now_ns) == ""
        breaker.on_outcome(EP, Outcome(kind), host.now_ns)
    assert breaker.allows(EP, host.now_ns) == example.expect["then"]
    if rest_ms := example.expect.get("rest_ms"):
        assert breaker.allows(EP, host.advance_ms(rest_ms - 1)) == "circuit_open"
        assert breaker.allows(EP, host.advance_ms(1)) == ""


def test_too_few_calls_decide_nothing() -> None:
    bench = Bench(min_calls=10, consecutive_failures=100)
    bench.send(*["failure"] * 9)
    assert bench.allows() == ""
    bench.ends("failure")
    assert bench.allows() == "circuit_open"


def test_the_call_that_reaches_min_calls_decides_even_when_it_is_good() -> None:
    bench = Bench(min_calls=10, consecutive_failures=100)
    bench.send(*["failure"] * 9, "success")
    assert bench.allows() == "circuit_open"


def test_failures_older_than_the_window_are_forgotten() -> None:
    bench = Bench(min_calls=10, window_s=30, consecutive_failures=100)
    bench.send(*["failure"] * 9)
    bench.host.advance_ms(31_000)
    bench.send("failure", "failure")
    assert bench.allows() == ""


def test_the_ring_does_not_count_a_bucket_of_an_earlier_lap() -> None:
    bench = Bench(min_calls=10, window_s=120, consecutive_failures=100)
    for _ in range(12):
        bench.send("failure")
        bench.host.advance_ms(128_000)
    assert bench.allows() == ""


@given(
    st.lists(
        st.tuples(st.integers(0, 4), st.sampled_from(("success", "failure", "slow"))), max_size=60
    ),
    st.integers(1, 12),
)
def test_the_window_counts_what_a_plain_list_counts(
    calls: list[tuple[int, Any]], window_s: int
) -> None:
    host = FakeHost()
    plan = compile_plan(CircuitBreakerConfig(min_calls=100_000, consecutive_failures=1_000), NOBODY)
    breaker, seen = CircuitBreaker(plan, host), []
    for seconds, kind in calls:
        host.advance_ms(seconds * 1_000)
        breaker.on_outcome(EP, Outcome(kind), host.now_ns)
        second = host.now_ns // 1_000_000_000
        seen.append((second, kind))
        kinds = [kind for when, kind in seen if when > second - window_s]
        counted = host.state(SLUG, EP, Circuit).totals(second, window_s)
        assert counted == (len(kinds), kinds.count("failure"), kinds.count("slow"))


def test_a_success_ends_a_row_of_failures_and_so_does_a_slow_answer() -> None:
    bench = Bench()
    bench.send(*["failure"] * 4, "success", *["failure"] * 4, "slow", *["failure"] * 4)
    assert bench.allows() == ""
    bench.ends("failure")
    assert bench.allows() == "circuit_open"


def test_a_neutral_end_neither_counts_nor_ends_a_row() -> None:
    bench = Bench()
    bench.send(*["failure", "neutral"] * 4)
    assert bench.allows() == ""
    bench.ends("failure")
    assert bench.allows() == "circuit_open"


def test_never_more_than_max_probes_are_under_way() -> None:
    bench = Bench(max_probes=2).opened()
    bench.host.advance_ms(12_001)
    assert [bench.allows() for _ in range(4)] == ["", "", *["circuit_half_open"] * 2]


def test_good_probes_close_it_and_its_record_is_empty() -> None:
    bench = Bench().opened()
    bench.host.advance_ms(12_001)
    bench.send("success", "success", "success")
    bench.send(*["failure"] * 4)
    assert bench.allows() == ""
    assert bench.host.codes == ["circuit_opened", "circuit_half_open", "circuit_closed"]


def test_a_bad_probe_opens_it_for_twice_as_long() -> None:
    bench = Bench().opened()
    bench.host.advance_ms(12_001)
    bench.send("failure")
    bench.host.advance_ms(19_999)
    assert bench.allows() == "circuit_open"
    bench.host.advance_ms(2)
    assert bench.allows() == ""


def test_the_rest_never_exceeds_its_maximum() -> None:
    bench = Bench(FakeHost(dice=0.999), base_open_ms=1_000, max_open_ms=5_000).opened()
    for _ in range(8):
        bench.host.advance_ms(5_000)
        bench.send("failure")
    bench.host.advance_ms(5_000)
    assert bench.allows() == ""


@pytest.mark.parametrize(("dice", "rest_ms"), [(0.0, 8_000), (0.5, 10_000), (1.0, 12_000)])
def test_the_rest_has_twenty_percent_of_jitter(dice: float, rest_ms: int) -> None:
    bench = Bench(FakeHost(dice)).opened()
    bench.host.advance_ms(rest_ms - 10)
    assert bench.allows() == "circuit_open"
    bench.host.advance_ms(20)
    assert bench.allows() == ""


@pytest.mark.parametrize("kind", ["neutral", "credential", "success"])
def test_a_probe_that_ends_gives_its_place_back(kind: str) -> None:
    bench = Bench(max_probes=1, successes_to_close=5).opened()
    bench.host.advance_ms(12_001)
    bench.send(kind)
    assert bench.allows() == ""


def test_an_abandoned_probe_loses_its_place_at_its_deadline() -> None:
    bench = Bench(max_probes=1, probe_deadline_ms=5_000).opened()
    bench.host.advance_ms(12_001)
    assert bench.allows() == ""
    bench.host.advance_ms(4_999)
    assert bench.allows() == "circuit_half_open"
    bench.host.advance_ms(1)
    assert bench.allows() == ""


def test_a_probe_past_its_deadline_has_a_vote_but_frees_no_other_place() -> None:
    bench = Bench(max_probes=1, probe_deadline_ms=5_000, successes_to_close=2).opened()
    bench.host.advance_ms(12_001)
    assert bench.allows() == ""
    bench.host.advance_ms(6_000)
    assert bench.allows() == ""
    bench.ends("success", took_ms=6_000)
    assert bench.allows() == "circuit_half_open"
    bench.host.advance_ms(10)
    bench.ends("success", took_ms=10)
    assert bench.host.codes[-1] == "circuit_closed"


@pytest.mark.parametrize("kind", ["success", "failure"])
def test_an_attempt_sent_before_the_circuit_opened_says_nothing_now(kind: str) -> None:
    bench = Bench(max_probes=1, successes_to_close=1).opened()
    bench.host.advance_ms(12_001)
    assert bench.allows() == ""
    bench.host.advance_ms(5)
    bench.ends(kind, took_ms=12_006)
    assert bench.allows() == "circuit_half_open"


def test_a_429_pauses_for_what_it_asks_and_is_no_failure() -> None:
    bench = Bench(FakeHost(dice=0.0), consecutive_failures=1)
    assert bench.allows() == ""
    bench.ends("throttle", retry_after_ms=4_000)
    bench.host.advance_ms(3_999)
    assert bench.allows() == "endpoint_cooling_down"
    bench.host.advance_ms(1)
    assert bench.allows() == ""


@pytest.mark.parametrize(("asked_ms", "pause_ms"), [(0, 1_000), (10_000_000, 60_000)])
def test_a_pause_is_held_between_a_second_and_its_maximum(asked_ms: int, pause_ms: int) -> None:
    bench = Bench(FakeHost(dice=0.0))
    bench.ends("throttle", retry_after_ms=asked_ms)
    bench.host.advance_ms(pause_ms - 1)
    assert bench.allows() == "endpoint_cooling_down"
    bench.host.advance_ms(1)
    assert bench.allows() == ""


def test_a_throttled_probe_gives_its_place_back_after_the_pause() -> None:
    bench = Bench(FakeHost(dice=0.5), max_probes=1).opened()
    bench.host.advance_ms(12_001)
    assert bench.allows() == ""
    bench.ends("throttle", retry_after_ms=1_000)
    assert bench.allows() == "endpoint_cooling_down"
    bench.host.advance_ms(1_200)
    assert bench.allows() == ""


def test_a_refused_provider_key_is_reported_once_a_minute_and_opens_nothing() -> None:
    bench = Bench(consecutive_failures=1)
    bench.send(*["credential"] * 3)
    assert bench.host.codes == ["credential_refused"]
    bench.host.advance_ms(60_000)
    bench.send("credential")
    assert bench.host.codes == ["credential_refused"] * 2


def test_a_new_snapshot_finds_the_circuit_as_the_old_one_left_it() -> None:
    bench = Bench().opened()
    assert Bench(bench.host, min_calls=7).allows() == "circuit_open"


def test_two_endpoints_know_nothing_of_each_other() -> None:
    bench = Bench().opened()
    assert bench.breaker.allows("ep_2", bench.host.now_ns) == ""


def test_it_fails_open_so_its_error_reaches_the_engine_untouched() -> None:
    """Its declared direction: the engine turns this exception into an allowed attempt."""
    assert SKILL.on_error == "open"
    plan = compile_plan(CircuitBreakerConfig(), TenantFacts("t"))
    breaker = CircuitBreaker(plan, FailingHost())
    with pytest.raises(HostDownError):
        breaker.allows(EP, 0)
    with pytest.raises(HostDownError):
        breaker.on_outcome(EP, Outcome("failure"), 0)
