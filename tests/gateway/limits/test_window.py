from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.limits.window import NEVER_MS, window_at

ZONES = ("UTC", "Asia/Kathmandu", "Europe/Berlin", "America/New_York", "Pacific/Auckland")
HOUR = 3_600_000


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp() * 1000)


@pytest.mark.parametrize(
    ("kind", "zone", "now", "start", "end"),
    [
        ("day", "UTC", "2026-03-05T10:00+00:00", "2026-03-05T00:00+00:00", "2026-03-06T00:00+00:00"),
        ("day", "Asia/Kathmandu", "2026-03-05T18:20+00:00", "2026-03-05T18:15+00:00", "2026-03-06T18:15+00:00"),
        ("day", "Europe/Berlin", "2026-03-29T12:00+00:00", "2026-03-28T23:00+00:00", "2026-03-29T22:00+00:00"),
        ("week", "UTC", "2026-03-05T10:00+00:00", "2026-03-02T00:00+00:00", "2026-03-09T00:00+00:00"),
        ("month", "UTC", "2026-12-05T10:00+00:00", "2026-12-01T00:00+00:00", "2027-01-01T00:00+00:00"),
    ],
)  # fmt: skip
def test_windows_begin_at_local_midnight(
    kind: str, zone: str, now: str, start: str, end: str
) -> None:
    window = window_at(kind, zone, ms(now))  # type: ignore[arg-type]
    assert (window.start_ms, window.end_ms) == (ms(start), ms(end))


def test_a_total_window_never_ends() -> None:
    window = window_at("total", "UTC", 5)
    assert (window.start_ms, window.end_ms, window.resets_at) == (0, NEVER_MS, None)


@given(
    st.sampled_from(("day", "week", "month")),
    st.sampled_from(ZONES),
    st.integers(ms("2020-01-01T00:00+00:00"), ms("2035-01-01T00:00+00:00")),
)
def test_windows_hold_their_moment_and_follow_without_a_gap(kind: str, zone: str, now: int) -> None:
    window = window_at(kind, zone, now)  # type: ignore[arg-type]
    assert window.start_ms <= now < window.end_ms
    following = window_at(kind, zone, window.end_ms)  # type: ignore[arg-type]
    assert following.start_ms == window.end_ms
    assert window_at(kind, zone, window.end_ms - 1) == window  # type: ignore[arg-type]


def test_the_reset_is_told_in_utc() -> None:
    window = window_at("month", "UTC", ms("2026-12-05T10:00+00:00"))
    assert window.resets_at == "2027-01-01T00:00:00Z"
    assert datetime.fromisoformat(window.resets_at).tzinfo == UTC
