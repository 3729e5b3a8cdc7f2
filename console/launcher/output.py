"""What the processes say: on the terminal with time and name as honcho prints it, and in a log file each."""

from __future__ import annotations

import contextlib
import itertools
import sys
import threading
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from honcho.colour import get_colours
from honcho.printer import Message, Printer

_MAX_LOG_BYTES: Final = 8 << 20
"""A log file is moved to `.1` at this size, so that logs never fill ACE_HOME."""


class Output:
    """Thread-safe. `quiet` keeps the lines of the processes in their files and shows only the launcher's own."""

    def __init__(self, logs: Path, names: list[str], *, quiet: bool = False) -> None:
        self._logs = logs
        self._quiet = quiet
        self._lock = threading.Lock()
        self._printer: Any = Printer(sys.stdout, width=max(len(name) for name in [*names, "ace"]))
        self._colours = dict(zip([*names, "ace"], itertools.cycle(get_colours()), strict=False))

    def line(self, name: str, text: str) -> None:
        """Never raises: a closed terminal or a full disk must not stop what is being served."""
        with self._lock, contextlib.suppress(OSError, ValueError):
            self._log(name, text)
            if name == "ace" or not self._quiet:
                now = datetime.now().astimezone()
                self._printer.write(Message("line", text, now, name, self._colours.get(name)))
                sys.stdout.flush()

    def plain(self, text: str) -> None:
        with self._lock, contextlib.suppress(OSError, ValueError):
            sys.stdout.write(text + "\n")
            sys.stdout.flush()

    def _log(self, name: str, text: str) -> None:
        file = self._logs / f"{name}.log"
        with contextlib.suppress(OSError):
            if file.exists() and file.stat().st_size > _MAX_LOG_BYTES:
                file.replace(file.with_name(f"{name}.log.1"))
            with file.open("a", encoding="utf-8") as handle:
                handle.write(text + "\n")
