"""The last snapshot that was swapped in, as it came, so that a worker can start with everything else down.

It is verified again when it is read: the disk is not trusted more than the network.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from policies.schema.sealing import MAX_SNAPSHOT_BYTES

FILE_NAME: Final = "last_known_good.snapshot"


class LastKnownGood:
    def __init__(self, directory: Path) -> None:
        self._path = directory / FILE_NAME

    def write(self, envelope: bytes) -> None:
        """Atomic and durable. Workers of one machine share the file; each writes its own copy and renames it."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        fresh = self._path.with_suffix(f".{os.getpid()}.new")
        with fresh.open("wb") as file:
            file.write(envelope)
            file.flush()
            os.fsync(file.fileno())
        fresh.rename(self._path)
        directory = os.open(self._path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    def read(self) -> bytes | None:
        """None: there is none."""
        try:
            with self._path.open("rb") as file:
                return file.read(MAX_SNAPSHOT_BYTES + 1)
        except FileNotFoundError:
            return None
