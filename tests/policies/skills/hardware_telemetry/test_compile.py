from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.contract.facts import TenantFacts
from policies.skills.hardware_telemetry.compile import compile_plan, headroom, memory_headroom
from policies.skills.hardware_telemetry.config import HardwareTelemetryConfig

FULL = {
    "gpu_util": 40.0,
    "fb_used": 90.0,
    "fb_total": 100.0,
    "power_usage": 210.0,
    "enforced_power_limit": 300.0,
    "gpu_temp": 60.0,
    "slowdown_temp": 90.0,
}


def test_a_reading_named_by_two_scopes_is_taken_once() -> None:
    config = HardwareTelemetryConfig(fields=("gpu_util", "gpu_temp", "gpu_util"))
    assert compile_plan(config, TenantFacts("t")).fields == ("gpu_util", "gpu_temp")


def test_headroom_is_the_least_term_and_names_it() -> None:
    found = headroom(FULL)
    assert found.ratio == pytest.approx(0.1)
    assert found.binding == "memory"
    assert found.terms == pytest.approx(
        {"compute": 0.6, "memory": 0.1, "power": 0.3, "thermal": 0.5}
    )


@given(st.sets(st.sampled_from(sorted(FULL))))
def test_an_absent_reading_takes_its_term_away_and_is_never_zero(absent: set[str]) -> None:
    found = headroom({name: value for name, value in FULL.items() if name not in absent})
    needs = {
        "compute": {"gpu_util"},
        "memory": {"fb_used", "fb_total"},
        "power": {"power_usage", "enforced_power_limit"},
        "thermal": {"gpu_temp", "slowdown_temp"},
    }
    assert set(found.terms) == {term for term, names in needs.items() if not names & absent}
    assert (found.ratio is None) is (not found.terms)


def test_with_nothing_known_headroom_is_unknown() -> None:
    assert (headroom({}).ratio, headroom({}).binding) == (None, None)


def test_a_total_of_zero_is_no_total() -> None:
    assert memory_headroom({"fb_used": 0.0, "fb_total": 0.0}) is None


@given(st.dictionaries(st.sampled_from(sorted(FULL)), st.floats(0, 1e6)))
def test_every_term_is_a_share(readings: dict[str, float]) -> None:
    assert all(0 <= ratio <= 1 for ratio in headroom(readings).terms.values())
