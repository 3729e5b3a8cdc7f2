"""Where telemetry takes its time from. Tests own theirs."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    def unix_ms(self) -> int: ...

    def monotonic_s(self) -> float:
        """Never goes back; for deadlines."""
        ...


class SystemClock:
    def unix_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        return time.monotonic()
