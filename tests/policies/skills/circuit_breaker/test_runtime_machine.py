"""The breaker under any order of events, against a model that keeps only what is promised."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from policies.contract.facts import Outcome, TenantFacts
from policies.skills.circuit_breaker.compile import NS_PER_MS, compile_plan
from policies.skills.circuit_breaker.config import CircuitBreakerConfig
from policies.skills.circuit_breaker.runtime import SLUG, Circuit, CircuitBreaker
from tests.policies.host import FakeHost

EP = "ep_1"
BAD = ("failure", "slow")
NEUTRAL = ("throttle", "credential", "neutral")


class BreakerMachine(RuleBasedStateMachine):
    @initialize(
        probes=st.integers(1, 3),
        successes=st.integers(1, 4),
        in_a_row=st.integers(1, 4),
        min_calls=st.integers(1, 6),
        dice=st.floats(0, 1),
    )
    def set_up(
        self, probes: int, successes: int, in_a_row: int, min_calls: int, dice: float
    ) -> None:
        config = CircuitBreakerConfig(
            window_s=5,
            min_calls=min_calls,
            consecutive_failures=in_a_row,
            base_open_ms=1_000,
            max_open_ms=8_000,
            max_cooldown_ms=4_000,
            max_probes=probes,
            probe_deadline_ms=2_000,
            successes_to_close=successes,
        )
        self.plan = compile_plan(config, TenantFacts("t"))
        self.host = FakeHost(dice)
        self.breaker = CircuitBreaker(self.plan, self.host)
        self.under_way: list[tuple[int, str]] = []
        """(start, phase after it was allowed) of attempts that have not ended."""

    @property
    def circuit(self) -> Circuit:
        return self.host.state(SLUG, EP, Circuit)

    def ask(self) -> str:
        reason = self.breaker.allows(EP, self.host.now_ns)
        if not reason:
            self.under_way.append((self.host.now_ns, self.circuit.phase))
        return reason

    def end(self, start_ns: int, kind: str) -> None:
        latency_us = (self.host.now_ns - start_ns) // 1_000
        outcome = Outcome(kind, latency_us, retry_after_ms=1_000)  # type: ignore[arg-type]
        self.breaker.on_outcome(EP, outcome, self.host.now_ns)

    @rule(count=st.integers(1, 5))
    def requests_come(self, count: int) -> None:
        for _ in range(count):
            self.ask()

    @precondition(lambda self: self.under_way)
    @rule(
        which=st.randoms(use_true_random=False), kind=st.sampled_from((*BAD, *NEUTRAL, "success"))
    )
    def an_attempt_ends(self, which: object, kind: str) -> None:
        start_ns, _ = self.under_way.pop(which.randrange(len(self.under_way)))  # type: ignore[attr-defined]
        self.end(start_ns, kind)

    @precondition(lambda self: self.under_way)
    @rule(kind=st.sampled_from((*NEUTRAL, "success")))
    def the_oldest_attempt_ends(self, kind: str) -> None:
        """A long stream: it may have begun before the circuit opened, or as a late probe."""
        self.end(self.under_way.pop(0)[0], kind)

    @rule()
    def an_outage_and_its_rest(self) -> None:
        for _ in range(self.plan.consecutive_failures):
            if not self.ask():
                self.end(self.under_way.pop()[0], "failure")
        self.host.now_ns = max(self.host.now_ns, self.circuit.open_until_ns)
        self.ask()

    @precondition(lambda self: self.under_way)
    @rule()
    def an_attempt_is_forgotten(self) -> None:
        """A bug elsewhere: its end is never reported."""
        self.under_way.pop()

    @rule(milliseconds=st.sampled_from((1, 50, 500, 1_000, 2_000, 5_000, 9_000)))
    def time_passes(self, milliseconds: int) -> None:
        self.host.advance_ms(milliseconds)

    @rule(milliseconds=st.integers(1, 3_000))
    def a_new_snapshot_arrives(self, milliseconds: int) -> None:
        self.breaker = CircuitBreaker(self.plan, self.host)
        self.host.advance_ms(milliseconds)

    @rule()
    def the_endpoint_recovers(self) -> None:
        """Within one longest rest, one pause and one probe interval a good endpoint serves."""
        longest = self.plan.max_open_ns + int(self.plan.max_cooldown_ns * 1.2)
        self.host.advance_ms((longest + self.plan.probe_deadline_ns) / NS_PER_MS)
        self.under_way.clear()
        for _ in range(self.plan.successes_to_close):
            assert self.ask() == ""
            start_ns, _ = self.under_way.pop()
            self.host.advance_ms(1)
            self.end(start_ns, "success")
        assert self.circuit.phase == "closed"
        assert self.ask() == ""

    @invariant()
    def never_more_probes_than_allowed(self) -> None:
        if self.circuit.phase != "half_open":
            return
        since, now = self.circuit.half_open_since_ns, self.host.now_ns
        live = [
            start
            for start, phase in self.under_way
            if phase == "half_open" and start >= since and now - start < self.plan.probe_deadline_ns
        ]
        assert len(live) <= self.plan.max_probes

    @invariant()
    def it_is_never_stuck(self) -> None:
        """Whatever the state, there is a bounded moment from which one more attempt is let out."""
        circuit, now = self.circuit, self.host.now_ns
        assert circuit.open_until_ns - now <= self.plan.max_open_ns
        assert circuit.paused_until_ns - now <= self.plan.max_cooldown_ns * 1.2
        if circuit.phase == "half_open" and circuit.probes:
            assert min(circuit.probes) <= now

    @invariant()
    def an_open_circuit_lets_nothing_out(self) -> None:
        if self.circuit.phase == "open" and self.host.now_ns < self.circuit.open_until_ns:
            assert self.breaker.allows(EP, self.host.now_ns) != ""


TestBreakerMachine = BreakerMachine.TestCase
TestBreakerMachine.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
