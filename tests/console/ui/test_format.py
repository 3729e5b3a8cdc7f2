"""Numbers say exactly what they are, and absent is unknown."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from console.ui import format as form

NOW = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("microusd", "words"),
    [
        (None, "unknown"),
        (0, "$0.00"),
        (1, "$0.000001"),
        (42, "$0.000042"),
        (3_000, "$0.0030"),
        (250_000, "$0.25"),
        (251_200, "$0.2512"),
        (1_204_110_000, "$1,204.11"),
        (1_005_000, "$1.01"),
        (-2_500_000, "−$2.50"),
    ],
)
def test_money_is_short_but_never_hides_what_is_there(microusd: int | None, words: str) -> None:
    assert form.money(microusd) == words


@pytest.mark.parametrize(
    ("ratio", "words"),
    [(None, "unknown"), (0, "0 %"), (0.004, "< 1 %"), (0.999, "99 %"), (1, "100 %")],
)
def test_a_share_is_never_rounded_up_to_all(ratio: float | None, words: str) -> None:
    assert form.percent(ratio) == words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(-5, "0 s"), (59, "59 s"), (60, "1 min"), (3_660, "1 h 1 min"), (1_155_600, "13 d 9 h")],
)
def test_a_duration_names_its_two_largest_units(seconds: float, words: str) -> None:
    assert form.duration(seconds) == words


def test_the_past_and_the_future_read_differently() -> None:
    assert form.ago(NOW - timedelta(seconds=12), NOW) == "12 s ago"
    assert form.ago(NOW + timedelta(days=1), NOW) == "in 1 d"
    assert form.ago(None, NOW) == "never"
    assert form.until(NOW - timedelta(seconds=1), NOW) == "now"


def test_a_moment_carries_its_zone() -> None:
    assert form.stamp(NOW) == "1 Dec 2026, 12:00:00 UTC"


def test_hidden_characters_are_shown_and_emoji_stay_whole() -> None:
    assert form.visible("pay\u202eroll") == "pay⟨U+202E⟩roll"
    assert form.visible("ad\u200dmin") == "ad⟨U+200D⟩min"
    assert form.visible("👩\u200d🔬 مرحبا") == "👩\u200d🔬 مرحبا"
