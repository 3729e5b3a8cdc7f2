"""Thresholds of the circuit breaker."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from policies.contract.config import SkillConfig
from policies.schema.base import Ui
from policies.schema.units import Percent


class CircuitBreakerConfig(SkillConfig):
    """When an endpoint is given a rest, for how long, and how it earns its way back."""

    window_s: Annotated[int, Ui(group="Trip", widget="duration", unit="s")] = Field(
        default=60,
        ge=1,
        le=120,
        description="Sliding window, in seconds, in which calls are counted.",
    )
    min_calls: Annotated[int, Ui(group="Trip")] = Field(
        default=20,
        ge=1,
        le=100_000,
        description="Calls in the window before a percentage is believed.",
    )
    failure_percent: Annotated[Percent, Ui(group="Trip", widget="percent", unit="%")] = Field(
        default=50,
        ge=1,
        description="Share of failed calls in the window that opens the circuit.",
    )
    slow_percent: Annotated[Percent, Ui(group="Trip", widget="percent", unit="%")] = Field(
        default=80,
        ge=1,
        description="Share of slow calls in the window that opens the circuit.",
    )
    consecutive_failures: Annotated[int, Ui(group="Trip")] = Field(
        default=5,
        ge=1,
        le=1_000,
        description="Failures in a row that open the circuit before min_calls is reached.",
    )
    base_open_ms: Annotated[int, Ui(group="Rest", widget="duration", unit="ms")] = Field(
        default=10_000,
        ge=100,
        le=600_000,
        description="First rest of an opened circuit; doubles each time a probe fails.",
    )
    max_open_ms: Annotated[int, Ui(group="Rest", widget="duration", unit="ms")] = Field(
        default=300_000,
        ge=100,
        le=3_600_000,
        description="Longest rest; at least base_open_ms.",
    )
    max_cooldown_ms: Annotated[int, Ui(group="Rest", widget="duration", unit="ms")] = Field(
        default=60_000,
        ge=1_000,
        le=600_000,
        description="Longest pause that an endpoint's 429 with Retry-After may ask for.",
    )
    max_probes: Annotated[int, Ui(group="Probe")] = Field(
        default=3,
        ge=1,
        le=100,
        description="Requests that may try a half-open endpoint at the same time.",
    )
    probe_deadline_ms: Annotated[int, Ui(group="Probe", widget="duration", unit="ms")] = Field(
        default=30_000,
        ge=100,
        le=600_000,
        description="After this long a probe that has not ended no longer holds its place.",
    )
    successes_to_close: Annotated[int, Ui(group="Probe")] = Field(
        default=3,
        ge=1,
        le=100,
        description="Probes that must end well, at the end of their stream, to close the circuit.",
    )

    @model_validator(mode="after")
    def _the_longest_rest_is_not_the_shortest(self) -> Self:
        if self.max_open_ms < self.base_open_ms:
            raise ValueError("max_open_ms must be at least base_open_ms")
        return self
