from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.contract.facts import Finding, GpuFacts, TenantFacts
from policies.skills.hardware_telemetry import SKILL
from policies.skills.hardware_telemetry.compile import compile_plan
from policies.skills.hardware_telemetry.config import HardwareTelemetryConfig
from policies.skills.hardware_telemetry.runtime import Alarm, HardwareTelemetry
from tests.policies.examples import Example, examples, title
from tests.policies.host import FailingHost, FakeHost, HostDownError


def sample(xids: tuple[int, ...] = (), uuid: str = "GPU-1", **readings: float) -> GpuFacts:
    return GpuFacts(uuid, "node-1", "H200", readings, xid_errors=xids)


class Bench:
    def __init__(self, **settings: Any) -> None:
        self.host = FakeHost()
        config = HardwareTelemetryConfig(mode="enforce", **settings)
        self.observer = HardwareTelemetry(compile_plan(config, TenantFacts("")), self.host)

    def sees(self, *samples: GpuFacts) -> list[Finding]:
        return [finding for each in samples for finding in self.observer.observe(each)]

    def codes(self, *samples: GpuFacts) -> list[str]:
        return [finding.code for finding in self.sees(*samples)]


@pytest.mark.parametrize("example", examples("hardware_telemetry"), ids=title)
def test_the_worked_examples_come_out_as_written(example: Example) -> None:
    observer = HardwareTelemetry(example.plan, FakeHost())
    findings = [f for r in example.expect["samples"] for f in observer.observe(sample(**r))]
    assert [finding.code for finding in findings] == example.expect["findings"]


def test_one_hot_sample_is_no_alert() -> None:
    hot, cool = sample(gpu_temp=95), sample(gpu_temp=60)
    assert Bench().codes(hot, hot, cool, hot, hot, cool) == []


def test_a_temperature_around_its_threshold_does_not_flap() -> None:
    bench = Bench(clear_after_samples=2)
    around = [sample(gpu_temp=83), sample(gpu_temp=82)] * 50
    assert bench.codes(*[sample(gpu_temp=83)] * 3, *around) == ["gpu_temperature_alert"]


def test_an_alert_that_goes_on_is_told_once() -> None:
    assert Bench().codes(*[sample(gpu_temp=85)] * 100) == ["gpu_temperature_alert"]


def test_a_warning_may_become_critical_and_calm_down_again() -> None:
    bench = Bench(raise_after_samples=2, clear_after_samples=2)
    temperatures = [85, 85, 91, 91, 84, 84, 60, 60]
    findings = bench.sees(*[sample(gpu_temp=each) for each in temperatures])
    assert [finding.severity for finding in findings] == ["warning", "critical", "warning", "info"]


def test_a_mixed_rise_raises_the_level_that_every_sample_reached() -> None:
    findings = Bench().sees(sample(gpu_temp=95), sample(gpu_temp=84), sample(gpu_temp=95))
    assert [finding.severity for finding in findings] == ["warning"]


def test_an_absent_reading_neither_raises_nor_ends_an_alert() -> None:
    bench = Bench(clear_after_samples=1)
    assert bench.codes(*[sample(gpu_util=50)] * 20) == []
    assert bench.codes(*[sample(gpu_temp=85)] * 3) == ["gpu_temperature_alert"]
    assert bench.codes(*[sample(gpu_util=50)] * 20) == []
    assert bench.codes(sample(gpu_temp=50)) == ["gpu_temperature_normal"]


def test_scarce_memory_is_told_and_so_is_its_end() -> None:
    bench = Bench(clear_after_samples=2)
    full, tight = sample(fb_used=99, fb_total=100), sample(fb_used=97.5, fb_total=100)
    free = sample(fb_used=50, fb_total=100)
    assert bench.codes(full, full, full, tight, tight, tight) == ["gpu_memory_alert"]
    assert bench.codes(free, free) == ["gpu_memory_normal"]


@pytest.mark.parametrize("readings", [{"ecc_dbe_volatile_total": 1.0}, {"row_remap_failure": 1.0}])
def test_broken_memory_is_critical_at_the_first_sample(readings: dict[str, Any]) -> None:
    findings = Bench().sees(sample(**readings))
    assert [(f.code, f.severity) for f in findings] == [("gpu_ecc_alert", "critical")]


@pytest.mark.parametrize(("code", "severity"), [(79, "critical"), (94, "warning"), (31, "info")])
def test_an_xid_has_the_severity_of_its_list(code: int, severity: str) -> None:
    findings = Bench().sees(sample(xids=(code,)))
    assert [(f.code, f.severity, f.subject) for f in findings] == [("gpu_xid", severity, "GPU-1")]


def test_a_repeated_xid_is_told_again_only_after_it_was_away() -> None:
    bench = Bench(clear_after_samples=3)
    storm, calm = sample(xids=(79,)), sample()
    assert bench.codes(storm, storm, storm, calm, storm) == ["gpu_xid"]
    assert bench.codes(calm, calm, calm, storm) == ["gpu_xid"]


def test_two_gpus_have_alerts_of_their_own() -> None:
    hot = [sample(gpu_temp=85, uuid=f"GPU-{number}") for number in (1, 2)]
    assert Bench().codes(*hot, *hot, *hot) == ["gpu_temperature_alert"] * 2


def test_a_publish_does_not_end_an_alert() -> None:
    bench = Bench()
    bench.sees(*[sample(gpu_temp=85)] * 3)
    after = HardwareTelemetry(compile_plan(HardwareTelemetryConfig(), TenantFacts("")), bench.host)
    assert list(after.observe(sample(gpu_temp=85))) == []


@given(st.lists(st.integers(0, 2), max_size=60), st.integers(1, 4), st.integers(1, 4))
def test_an_alarm_never_changes_faster_than_its_counts_allow(
    levels: list[int], raise_after: int, clear_after: int
) -> None:
    alarm, since_change = Alarm(), 0
    for level in levels:
        before = alarm.level
        since_change += 1
        if alarm.feed(level, level, raise_after, clear_after):
            assert since_change >= (raise_after if alarm.level > before else clear_after)
            since_change = 0


def test_it_fails_open_so_its_error_reaches_the_engine_untouched() -> None:
    """Its declared direction: the engine counts the error, and no request waits for telemetry."""
    assert SKILL.on_error == "open"
    plan = compile_plan(HardwareTelemetryConfig(), TenantFacts(""))
    with pytest.raises(HostDownError):
        HardwareTelemetry(plan, FailingHost()).observe(sample(gpu_temp=95))
