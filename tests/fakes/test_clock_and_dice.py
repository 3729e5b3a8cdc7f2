"""Time and chance in the hands of a test."""

from __future__ import annotations

import pytest

from tests.fakes.clock import ManualClock
from tests.fakes.dice import ScriptedDice, SeededDice


def test_both_sides_of_the_clock_advance_together_and_only_the_wall_jumps() -> None:
    clock = ManualClock(wall=100.0, monotonic=5.0)
    clock.advance(2.5)
    clock.jump_wall(-3600)
    assert (clock.monotonic(), clock.monotonic_ns(), clock.unix_ms()) == (
        7.5,
        7_500_000_000,
        -3_497_500,
    )


def test_callbacks_run_in_order_at_their_own_time() -> None:
    clock = ManualClock(monotonic=0.0)
    seen: list[tuple[str, float]] = []
    clock.call_at(2.0, lambda: seen.append(("b", clock.monotonic())))
    clock.call_at(1.0, lambda: seen.append(("a", clock.monotonic())))
    clock.call_at(9.0, lambda: seen.append(("never", clock.monotonic())))
    clock.advance(3.0)
    assert seen == [("a", 1.0), ("b", 2.0)]
    assert clock.monotonic() == 3.0


def test_monotonic_time_does_not_run_backwards() -> None:
    with pytest.raises(ValueError, match="backwards"):
        ManualClock().advance(-1)


def test_scripted_dice_give_what_was_written_and_no_more() -> None:
    dice = ScriptedDice([0.5, 0.99, 0.0])
    assert (dice.random(), dice.choice("abcd"), dice.uniform(10, 20)) == (0.5, "d", 10.0)
    assert dice.left == 0
    with pytest.raises(AssertionError, match="one more"):
        dice.random()


def test_seeded_dice_repeat_and_show_their_seed() -> None:
    assert SeededDice(7).random() == SeededDice(7).random()
    assert "7" in repr(SeededDice(7))
