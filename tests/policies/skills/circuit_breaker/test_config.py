from __future__ import annotations

import pytest
from pydantic import ValidationError

from policies.skills.circuit_breaker.config import CircuitBreakerConfig


def test_the_longest_rest_is_at_least_the_first_one() -> None:
    with pytest.raises(ValidationError, match="max_open_ms must be at least base_open_ms"):
        CircuitBreakerConfig(base_open_ms=5_000, max_open_ms=4_000)


@pytest.mark.parametrize(
    "field", ["max_probes", "successes_to_close", "min_calls", "consecutive_failures"]
)
def test_a_zero_that_would_wedge_the_circuit_is_refused(field: str) -> None:
    with pytest.raises(ValidationError):
        CircuitBreakerConfig.model_validate({field: 0})
