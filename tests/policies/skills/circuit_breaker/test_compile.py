from __future__ import annotations

from policies.contract.facts import TenantFacts
from policies.skills.circuit_breaker.compile import BreakerPlan, compile_plan
from policies.skills.circuit_breaker.config import CircuitBreakerConfig


def test_milliseconds_become_nanoseconds_and_counts_stay() -> None:
    config = CircuitBreakerConfig(
        base_open_ms=1_000, max_open_ms=2_000, probe_deadline_ms=3_000, max_cooldown_ms=4_000
    )
    assert compile_plan(config, TenantFacts("t")) == BreakerPlan(
        window_s=60,
        min_calls=20,
        failure_percent=50,
        slow_percent=80,
        consecutive_failures=5,
        base_open_ns=1_000_000_000,
        max_open_ns=2_000_000_000,
        max_cooldown_ns=4_000_000_000,
        max_probes=3,
        probe_deadline_ns=3_000_000_000,
        successes_to_close=3,
    )
