"""A slot: the durable identity of one worker. Its directory holds the spool and the lease table and has one owner."""

from __future__ import annotations

import fcntl
import os
import re
import secrets
from pathlib import Path
from time import monotonic, sleep
from typing import Final

_UNSAFE: Final = re.compile(r"[^A-Za-z0-9.-]+")


class SlotBusyError(Exception):
    """Another live process owns the slot."""


class Slot:
    """Exclusive hold of one slot directory; released when the process ends, however it ends."""

    __slots__ = ("_fd", "directory", "number", "spool_id")

    def __init__(self, directory: Path, node: str, wait_s: float = 5.0) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory, self.number = directory, int(directory.name)
        self._fd = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._lock(wait_s)
        self.spool_id = _spool_id(directory, node, self.number)

    def _lock(self, wait_s: float) -> None:
        """A killed predecessor may still be on its way out, so wait a little."""
        deadline = monotonic() + wait_s
        while True:
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if monotonic() >= deadline:
                    os.close(self._fd)
                    raise SlotBusyError(f"{self.directory} belongs to a live process") from None
                sleep(0.02)
            else:
                return

    def close(self) -> None:
        os.close(self._fd)


def _spool_id(directory: Path, node: str, number: int) -> str:
    """Kept for the life of the directory: sequence numbers rise within it, also across restarts."""
    path = directory / "spool_id"
    if path.exists() and (text := path.read_text().strip()):
        return text
    text = f"{_UNSAFE.sub('-', node)[:40]}-{number}-{secrets.token_hex(6)}"
    fresh = path.with_suffix(".new")
    with fresh.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    fresh.rename(path)
    return text
