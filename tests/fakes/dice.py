"""Dice for tests: seeded, so that a failure can be repeated, or scripted, so that it can be written down."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random
from typing import TypeVar

Item = TypeVar("Item")


class SeededDice(Random):
    """Python's generator, with its seed kept for the failure message."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.seed_used = seed

    def __repr__(self) -> str:
        return f"SeededDice({self.seed_used})"


class ScriptedDice:
    """Gives exactly the numbers it was told, in order, and fails when asked for more.

    Numbers are in [0, 1). `choice` and `randrange` use one number each, as a fraction of the range.
    """

    def __init__(self, numbers: Iterable[float]) -> None:
        self._numbers = list(numbers)
        self._next = 0
        if any(not 0 <= number < 1 for number in self._numbers):
            raise ValueError("scripted numbers must be in [0, 1)")

    def random(self) -> float:
        """The next number.

        Raises:
            AssertionError: The code under test threw more dice than the test wrote down.
        """
        if self._next >= len(self._numbers):
            raise AssertionError(
                f"the script had {len(self._numbers)} numbers and one more was asked for"
            )
        number = self._numbers[self._next]
        self._next += 1
        return number

    def uniform(self, low: float, high: float) -> float:
        return low + (high - low) * self.random()

    def randrange(self, stop: int) -> int:
        return int(self.random() * stop)

    def choice(self, items: Sequence[Item]) -> Item:
        return items[self.randrange(len(items))]

    @property
    def left(self) -> int:
        """Numbers not used yet; a test that wants them all used asserts 0."""
        return len(self._numbers) - self._next
