"""Counts in bins that grow by one thirty-second of an octave: any quantile within 2.2 %, mergeable."""

from __future__ import annotations

from math import ceil, log2
from typing import Final

BINS_PER_OCTAVE: Final = 32


class Histogram:
    """Positive values, such as microseconds. Values below 1 count as 1."""

    __slots__ = ("_bins", "count")

    def __init__(self) -> None:
        self._bins: dict[int, int] = {}
        self.count = 0

    def add(self, value: float) -> None:
        index = int(log2(max(value, 1.0)) * BINS_PER_OCTAVE)
        self._bins[index] = self._bins.get(index, 0) + 1
        self.count += 1

    def merge(self, other: Histogram) -> None:
        for index, count in other._bins.items():
            self._bins[index] = self._bins.get(index, 0) + count
        self.count += other.count

    def quantile(self, share: float) -> int | None:
        """The middle of the bin that holds the value of that rank; None: there are no values."""
        if not self.count:
            return None
        rank = max(1, ceil(share * self.count))
        for index in sorted(self._bins):
            rank -= self._bins[index]
            if rank <= 0:
                return round(2 ** ((index + 0.5) / BINS_PER_OCTAVE))
        raise AssertionError("the counts of the bins add up to count")
