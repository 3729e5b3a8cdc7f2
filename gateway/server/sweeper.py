"""One pass a few times a second over all connections replaces a timer per request."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from time import monotonic
from typing import Any


class Sweeper:
    """Sweeps while there are connections and rests when the last is gone."""

    __slots__ = ("_interval_s", "_timer")

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._timer: asyncio.TimerHandle | None = None

    def watch(self, connections: Collection[Any]) -> None:
        """Have `on_sweep(now)` of each member called; `connections` may change meanwhile."""
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._interval_s, self._sweep, connections)

    def _sweep(self, connections: Collection[Any]) -> None:
        self._timer = None
        now = monotonic()
        for connection in tuple(connections):
            connection.on_sweep(now)
        if connections:
            self.watch(connections)
