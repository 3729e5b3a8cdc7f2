"""Alert thresholds as the runtime reads them, and the one formula of headroom."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from policies.contract.facts import TenantFacts
from policies.skills.hardware_telemetry.config import HardwareTelemetryConfig

_IDLE_TEMPERATURE_C: Final = 30.0
"""Where thermal headroom counts as whole; a GPU at rest in a cooled room is about this warm."""


@dataclass(frozen=True, slots=True)
class TelemetryPlan:
    interval_ms: int
    fields: tuple[str, ...]
    temperature_warning_c: float
    temperature_critical_c: float
    temperature_hysteresis_c: float
    memory_headroom_ratio: float
    memory_hysteresis_ratio: float
    ecc_uncorrected_limit: int
    xid_critical: frozenset[int]
    xid_warning: frozenset[int]
    raise_after_samples: int
    clear_after_samples: int


@dataclass(frozen=True, slots=True)
class Headroom:
    """Share of a GPU that is left, and which term says so. Both None: nothing is known."""

    ratio: float | None
    binding: str | None
    terms: Mapping[str, float]
    """Every term that could be computed; a term with an absent reading is absent."""


def compile_plan(config: HardwareTelemetryConfig, _tenant: TenantFacts) -> TelemetryPlan:
    return TelemetryPlan(
        interval_ms=config.interval_ms,
        fields=tuple(dict.fromkeys(config.fields)),
        temperature_warning_c=config.temperature_warning_c,
        temperature_critical_c=config.temperature_critical_c,
        temperature_hysteresis_c=config.temperature_hysteresis_c,
        memory_headroom_ratio=config.memory_headroom_ratio,
        memory_hysteresis_ratio=config.memory_hysteresis_ratio,
        ecc_uncorrected_limit=config.ecc_uncorrected_limit,
        xid_critical=frozenset(config.xid_critical),
        xid_warning=frozenset(config.xid_warning),
        raise_after_samples=config.raise_after_samples,
        clear_after_samples=config.clear_after_samples,
    )


def memory_headroom(readings: Mapping[str, float]) -> float | None:
    """1 - used / total. None when either is absent."""
    used, total = readings.get("fb_used"), readings.get("fb_total")
    if used is None or not total:
        return None
    return _share(1 - used / total)


def headroom(readings: Mapping[str, float]) -> Headroom:
    """The least of what is known of compute, memory, power and temperature.

    Compute is an upper bound of busyness: `gpu_util` of 100 % means a kernel ran all the time, not
    that the GPU is full. Memory is what the driver sees; an engine that takes it all at start must
    be asked for its KV cache instead.
    """
    candidates = {
        "compute": _compute(readings),
        "memory": memory_headroom(readings),
        "power": _power(readings),
        "thermal": _thermal(readings),
    }
    terms = {name: ratio for name, ratio in candidates.items() if ratio is not None}
    if not terms:
        return Headroom(None, None, terms)
    binding = min(terms, key=lambda name: terms[name])
    return Headroom(terms[binding], binding, terms)


def _compute(readings: Mapping[str, float]) -> float | None:
    busy = readings.get("gpu_util")
    return None if busy is None else _share(1 - busy / 100)


def _power(readings: Mapping[str, float]) -> float | None:
    usage, limit = readings.get("power_usage"), readings.get("enforced_power_limit")
    if usage is None or not limit:
        return None
    return _share(1 - usage / limit)


def _thermal(readings: Mapping[str, float]) -> float | None:
    temperature, slowdown = readings.get("gpu_temp"), readings.get("slowdown_temp")
    if temperature is None or slowdown is None or slowdown <= _IDLE_TEMPERATURE_C:
        return None
    return _share((slowdown - temperature) / (slowdown - _IDLE_TEMPERATURE_C))


def _share(ratio: float) -> float:
    return min(1.0, max(0.0, ratio))
