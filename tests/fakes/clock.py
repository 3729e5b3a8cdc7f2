"""A clock that stands still until a test moves it, with a wall that may jump while the monotonic side may not."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from datetime import UTC, datetime

START = 1_790_000_000.0
"""Wall clock at the start, seconds since 1970: a Tuesday in September 2026."""


class ManualClock:
    """`monotonic()` in seconds, `wall()` in seconds since 1970. Callbacks due on the way are run in order."""

    def __init__(self, wall: float = START, monotonic: float = 1000.0) -> None:
        self._wall_offset = wall - monotonic
        self._monotonic = monotonic
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0

    def monotonic(self) -> float:
        return self._monotonic

    def wall(self) -> float:
        return self._monotonic + self._wall_offset

    def monotonic_ns(self) -> int:
        return round(self._monotonic * 1e9)

    def unix_ms(self) -> int:
        """The wall clock in milliseconds since 1970."""
        return round(self.wall() * 1000)

    def now(self) -> datetime:
        """The wall clock as an aware UTC datetime."""
        return datetime.fromtimestamp(self.wall(), UTC)

    def advance(self, seconds: float) -> None:
        """Let time pass.

        Raises:
            ValueError: Time would run backwards.
        """
        if seconds < 0:
            raise ValueError("monotonic time does not run backwards; use jump_wall")
        end = self._monotonic + seconds
        while self._due and self._due[0][0] <= end:
            at, _, callback = heapq.heappop(self._due)
            self._monotonic = max(self._monotonic, at)
            callback()
        self._monotonic = end

    def jump_wall(self, seconds: float) -> None:
        """Set the wall clock forwards or back, as an administrator or NTP does; monotonic time stays."""
        self._wall_offset += seconds

    def call_at(self, monotonic: float, callback: Callable[[], None]) -> None:
        """Run `callback` when `advance` passes that time; callbacks of one time keep their order."""
        self._count += 1
        heapq.heappush(self._due, (monotonic, self._count, callback))
