"""Circuit breaker: an endpoint that fails gets a rest and earns its way back by probes."""

from __future__ import annotations

from policies.contract.manifest import Skill
from policies.skills.circuit_breaker.compile import compile_plan
from policies.skills.circuit_breaker.config import CircuitBreakerConfig

SKILL = Skill(
    slug="circuit_breaker",
    title="Provider circuit breaker",
    summary="Stops sending to an endpoint that fails or crawls, and probes it until it is well.",
    layer="L6",
    role="upstream_guard",
    config=CircuitBreakerConfig,
    compile=compile_plan,
    runtime="policies.skills.circuit_breaker.runtime:CircuitBreaker",
    on_error="open",
)
