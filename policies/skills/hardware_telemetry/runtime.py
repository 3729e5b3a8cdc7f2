"""From samples to findings that start once and end once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Literal

from policies.contract.facts import Finding, GpuFacts
from policies.contract.host import Host
from policies.skills.hardware_telemetry.compile import TelemetryPlan, memory_headroom

SLUG: Final = "hardware_telemetry"

Severity = Literal["info", "warning", "critical"]

_NONE: Final = 0
_WARNING: Final = 1
_CRITICAL: Final = 2
_SEVERITY: Final[dict[int, Severity]] = {
    _NONE: "info",
    _WARNING: "warning",
    _CRITICAL: "critical",
}


class Alarm:
    """One alert of one GPU, with hysteresis in value and in time.

    It rises after `raise_after` samples in a row over a threshold, to the least level they all
    reached, and falls after `clear_after` in a row under the lower threshold. An unknown sample is
    not fed to it and therefore neither raises nor ends an alert.
    """

    __slots__ = ("_candidate", "_over", "_well", "level")

    def __init__(self) -> None:
        self.level = _NONE
        self._over = 0
        self._well = 0
        self._candidate = _CRITICAL

    def feed(self, raising: int, holding: int, raise_after: int, clear_after: int) -> bool:
        """Whether the level changed. `raising` is the level by the thresholds themselves, `holding`
        by the thresholds less hysteresis; it is never the lower of the two.
        """
        if raising > self.level:
            return self._rise(raising, raise_after)
        self._over, self._candidate = 0, _CRITICAL
        if holding >= self.level:
            self._well = 0
            return False
        self._well += 1
        if self._well < clear_after:
            return False
        self.level, self._well = holding, 0
        return True

    def _rise(self, raising: int, raise_after: int) -> bool:
        self._well = 0
        self._over += 1
        self._candidate = min(self._candidate, raising)
        if self._over < raise_after:
            return False
        self.level = self._candidate
        self._over, self._candidate = 0, _CRITICAL
        return True


class Gpu:
    """What is remembered of one GPU; outlives snapshots, so that a publish does not end alerts."""

    __slots__ = ("ecc", "memory", "temperature", "xids")

    def __init__(self) -> None:
        self.temperature = Alarm()
        self.memory = Alarm()
        self.ecc = Alarm()
        self.xids: dict[int, int] = {}
        """XID code reported -> samples since it was last seen."""


class HardwareTelemetry:
    __slots__ = ("_host", "_plan")

    def __init__(self, plan: TelemetryPlan, host: Host) -> None:
        self._plan = plan
        self._host = host

    def observe(self, gpu: GpuFacts, /) -> Sequence[Finding]:
        """Only changes: an alert that goes on is not told again."""
        known = self._host.state(SLUG, gpu.uuid, Gpu)
        return (
            *self._temperature(gpu, known.temperature),
            *self._memory(gpu, known.memory),
            *self._ecc(gpu, known.ecc),
            *self._xid(gpu, known.xids),
        )

    def _temperature(self, gpu: GpuFacts, alarm: Alarm) -> Iterator[Finding]:
        celsius = gpu.readings.get("gpu_temp")
        if celsius is None:
            return
        held = celsius + self._plan.temperature_hysteresis_c
        if self._feed(alarm, self._heat(celsius), self._heat(held)):
            yield _change("gpu_temperature", alarm, gpu, f"{celsius:.0f} °C")

    def _heat(self, celsius: float) -> int:
        if celsius >= self._plan.temperature_critical_c:
            return _CRITICAL
        return _WARNING if celsius >= self._plan.temperature_warning_c else _NONE

    def _memory(self, gpu: GpuFacts, alarm: Alarm) -> Iterator[Finding]:
        free = memory_headroom(gpu.readings)
        if free is None:
            return
        limit = self._plan.memory_headroom_ratio
        scarce = _WARNING if free < limit else _NONE
        still = _WARNING if free < limit + self._plan.memory_hysteresis_ratio else _NONE
        if self._feed(alarm, scarce, still):
            yield _change("gpu_memory", alarm, gpu, f"{free:.1%} of memory free")

    def _ecc(self, gpu: GpuFacts, alarm: Alarm) -> Iterator[Finding]:
        """Raised at once: one uncorrected error is one wrong answer, not a trend."""
        errors = gpu.readings.get("ecc_dbe_volatile_total")
        remap_failed = gpu.readings.get("row_remap_failure")
        if errors is None and remap_failed is None:
            return
        bad = (errors or 0) > self._plan.ecc_uncorrected_limit or bool(remap_failed)
        level = _CRITICAL if bad else _NONE
        if alarm.feed(level, level, 1, self._plan.clear_after_samples):
            detail = "row remapping failed" if remap_failed else f"{errors:.0f} uncorrected errors"
            yield _change("gpu_ecc", alarm, gpu, detail)

    def _xid(self, gpu: GpuFacts, xids: dict[int, int]) -> Iterator[Finding]:
        """A code is told when it comes up, and again only after it was away for a while."""
        for code in sorted(set(gpu.xid_errors) - xids.keys()):
            message = f"{gpu.name} on {gpu.node}: the driver reports XID {code}."
            yield Finding("gpu_xid", self._xid_severity(code), gpu.uuid, message)
        for code in gpu.xid_errors:
            xids[code] = -1
        for code in tuple(xids):
            xids[code] += 1
            if xids[code] >= self._plan.clear_after_samples:
                del xids[code]

    def _xid_severity(self, code: int) -> Severity:
        if code in self._plan.xid_critical:
            return "critical"
        return "warning" if code in self._plan.xid_warning else "info"

    def _feed(self, alarm: Alarm, raising: int, holding: int) -> bool:
        plan = self._plan
        return alarm.feed(raising, holding, plan.raise_after_samples, plan.clear_after_samples)


def _change(subject: str, alarm: Alarm, gpu: GpuFacts, detail: str) -> Finding:
    state = "normal" if alarm.level == _NONE else "alert"
    message = f"{gpu.name} on {gpu.node}: {detail}."
    return Finding(f"{subject}_{state}", _SEVERITY[alarm.level], gpu.uuid, message)
