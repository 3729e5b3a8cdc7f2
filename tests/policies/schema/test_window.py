from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.schema.units import BudgetWindow
from policies.schema.window import NEVER_MS, window_at

HOUR_MS = 3_600_000
ZONES = (
    "UTC",
    "Europe/Berlin",
    "Asia/Kolkata",
    "America/New_York",
    "Africa/Cairo",  # midnight is skipped when summer time begins
    "Atlantic/Azores",  # midnight comes twice when it ends
    "Pacific/Apia",  # left out a whole day in 2011
)
calendar = st.sampled_from(("day", "week", "month"))
moments = st.integers(1_262_304_000_000, 2_208_988_800_000)  # 2010 to 2039


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp() * 1000)


@given(calendar, st.sampled_from(ZONES), moments)
def test_windows_follow_each_other_without_gap_or_overlap(
    kind: BudgetWindow, zone: str, now_ms: int
) -> None:
    window = window_at(kind, zone, now_ms)
    assert window.start_ms <= now_ms < window.end_ms
    assert window_at(kind, zone, window.end_ms).start_ms == window.end_ms
    assert window_at(kind, zone, window.start_ms - 1).end_ms == window.start_ms
    assert window_at(kind, zone, window.end_ms - 1) == window


@pytest.mark.parametrize(
    ("kind", "start", "end"),
    [
        ("day", "2026-12-31T00:00+01:00", "2027-01-01T00:00+01:00"),
        ("week", "2026-12-28T00:00+01:00", "2027-01-04T00:00+01:00"),
        ("month", "2026-12-01T00:00+01:00", "2027-01-01T00:00+01:00"),
    ],
)
def test_a_window_begins_at_midnight_of_its_own_zone(
    kind: BudgetWindow, start: str, end: str
) -> None:
    window = window_at(kind, "Europe/Berlin", ms("2026-12-31T12:00+01:00"))
    assert window == (ms(start), ms(end))


@pytest.mark.parametrize(("day", "hours"), [("2026-03-29", 23), ("2026-10-25", 25)])
def test_a_day_on_which_the_clock_changes_is_shorter_or_longer(day: str, hours: int) -> None:
    window = window_at("day", "Europe/Berlin", ms(f"{day}T12:00+01:00"))
    assert window.end_ms - window.start_ms == hours * HOUR_MS


def test_a_total_never_ends_and_has_no_reset() -> None:
    window = window_at("total", "UTC", 1)
    assert window == (0, NEVER_MS)
    assert window.resets_at is None


def test_the_reset_is_told_in_utc() -> None:
    window = window_at("day", "Asia/Kolkata", ms("2026-12-01T12:00+05:30"))
    assert window.resets_at == "2026-12-01T18:30:00Z"
    assert datetime.fromisoformat("2026-12-01T18:30:00Z").tzinfo == UTC


def test_an_unknown_zone_is_an_error() -> None:
    with pytest.raises(KeyError):
        window_at("day", "Europe/Atlantis", 1)
