"""An embedded server that ended by itself is started again: one crash must not take the installation with it."""

from __future__ import annotations

import time
from collections import deque
from typing import Final

from console.launcher.embedded import EmbeddedPostgres, EmbeddedValkey
from console.launcher.errors import LauncherError
from console.launcher.output import Output
from console.launcher.processes import CRASH_WINDOW_S, MAX_CRASHES

AGAIN_S: Final = 1.0


class Mended:
    """One server under watch. It comes back at the same address, so whoever uses it only has to wait."""

    def __init__(self, server: EmbeddedPostgres | EmbeddedValkey, output: Output) -> None:
        self._server, self._output = server, output
        self._crashes: deque[float] = deque()
        self._not_before = 0.0

    def check(self) -> None:
        """Raises LauncherError when it ended too often to be kept up."""
        if time.monotonic() < self._not_before:
            return
        try:
            self._server.check()
        except LauncherError as error:
            self._start_again(error)

    def _start_again(self, reason: LauncherError) -> None:
        now = time.monotonic()
        while self._crashes and now - self._crashes[0] > CRASH_WINDOW_S:
            self._crashes.popleft()
        self._crashes.append(now)
        if len(self._crashes) >= MAX_CRASHES:
            raise reason
        self._output.line("ace", f"{reason}; starting it again")
        self._server.stop()
        try:
            self._server.start()
        except LauncherError as error:
            self._output.line("ace", str(error))
            self._not_before = time.monotonic() + AGAIN_S
