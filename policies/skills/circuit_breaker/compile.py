"""From settings in milliseconds to thresholds in the units of the clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from policies.contract.facts import TenantFacts
from policies.skills.circuit_breaker.config import CircuitBreakerConfig

NS_PER_MS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class BreakerPlan:
    window_s: int
    min_calls: int
    failure_percent: int
    slow_percent: int
    consecutive_failures: int
    base_open_ns: int
    max_open_ns: int
    max_cooldown_ns: int
    max_probes: int
    probe_deadline_ns: int
    successes_to_close: int


def compile_plan(config: CircuitBreakerConfig, _tenant: TenantFacts) -> BreakerPlan:
    return BreakerPlan(
        window_s=config.window_s,
        min_calls=config.min_calls,
        failure_percent=config.failure_percent,
        slow_percent=config.slow_percent,
        consecutive_failures=config.consecutive_failures,
        base_open_ns=config.base_open_ms * NS_PER_MS,
        max_open_ns=config.max_open_ms * NS_PER_MS,
        max_cooldown_ns=config.max_cooldown_ms * NS_PER_MS,
        max_probes=config.max_probes,
        probe_deadline_ns=config.probe_deadline_ms * NS_PER_MS,
        successes_to_close=config.successes_to_close,
    )
