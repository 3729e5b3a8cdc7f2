"""How far a spool is in the ledger: a mark without holes, and the ranges above the first hole. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

MAX_RANGES: Final = 256
"""Ranges remembered above a hole. The highest are forgotten beyond it; their events just come again."""


@dataclass(slots=True)
class Progress:
    """Everything up to and including `mark` is stored. `ranges` are closed, sorted and never touch."""

    mark: int = 0
    ranges: list[tuple[int, int]] = field(default_factory=list)

    def add(self, sequences: Iterable[int]) -> None:
        for sequence in sorted(sequences):
            self._add(sequence)
        del self.ranges[MAX_RANGES:]

    def raise_base(self, base: int) -> int:
        """Stop waiting for what lies below `base`, and say how many sequences will never come."""
        missing = 0
        while self.mark + 1 < base:
            stop = min(base, self.ranges[0][0]) if self.ranges else base
            missing += stop - self.mark - 1
            self.mark = stop - 1
            self._absorb()
        return missing

    def holds(self, sequence: int) -> bool:
        if sequence <= self.mark:
            return True
        at = bisect_right(self.ranges, (sequence, sequence + 1)) - 1
        return any(low <= sequence <= high for low, high in self.ranges[max(at, 0) : at + 2])

    def _add(self, sequence: int) -> None:
        if sequence == self.mark + 1 and not self.ranges:
            self.mark = sequence  # the usual case: in order, without a hole
            return
        if self.holds(sequence):
            return
        at = bisect_right(self.ranges, (sequence, sequence))
        self.ranges.insert(at, (sequence, sequence))
        self._join(at)
        self._absorb()

    def _join(self, at: int) -> None:
        """Merge the one-element range at `at` with the neighbours it touches."""
        low, high = self.ranges[at]
        if at + 1 < len(self.ranges) and self.ranges[at + 1][0] == high + 1:
            high = self.ranges.pop(at + 1)[1]
        if at > 0 and self.ranges[at - 1][1] == low - 1:
            low = self.ranges.pop(at - 1)[0]
            at -= 1
        self.ranges[at] = (low, high)

    def _absorb(self) -> None:
        while self.ranges and self.ranges[0][0] <= self.mark + 1:
            self.mark = max(self.mark, self.ranges.pop(0)[1])
