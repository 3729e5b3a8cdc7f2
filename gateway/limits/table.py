"""The lease table of one slot: a small mapped file, so that a killed worker knows what it had and what it spent.

Each field is one aligned 8-byte store, whole at any instant; the order of stores is chosen so that dying between two of
them forgets a grant or counts a spend twice, and never the other way round.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

RECORD_BYTES: Final = 128
FIRST_RECORDS: Final = 1024
_ID_BYTES: Final = 64
_RECORD: Final = struct.Struct("<64sQqqqq")
_INT: Final = struct.Struct("<q")
GRANTED, USED, OP, LEDGERED = (_ID_BYTES + 8 * n for n in range(1, 5))


class SavedLease(NamedTuple):
    record: int
    budget_id: str
    window_start_ms: int
    granted: int
    used: int
    op: int
    ledgered: int


class LeaseTable:
    """Records by index; a record with an empty id is free."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        size = os.fstat(self._fd).st_size // RECORD_BYTES * RECORD_BYTES
        if size == 0:
            size = FIRST_RECORDS * RECORD_BYTES
            os.posix_fallocate(self._fd, 0, size)
        self._map = mmap.mmap(self._fd, size)
        self._free = [
            index for index in range(size // RECORD_BYTES) if not self._map[index * RECORD_BYTES]
        ]
        self._free.reverse()

    def saved(self) -> Iterator[SavedLease]:
        for index in range(len(self._map) // RECORD_BYTES):
            raw = _RECORD.unpack_from(self._map, index * RECORD_BYTES)
            if raw[0][0]:
                yield SavedLease(index, raw[0].rstrip(b"\0").decode(), *raw[1:])

    def add(self, budget_id: str, window_start_ms: int) -> int:
        """Index of a new record with all figures 0."""
        if not self._free:
            self._grow()
        index = self._free.pop()
        at = index * RECORD_BYTES
        raw = budget_id.encode()
        # The id goes in last: until then the record does not exist.
        _RECORD.pack_into(self._map, at, b"", window_start_ms, 0, 0, 0, 0)
        self._map[at : at + len(raw)] = raw
        return index

    def remove(self, index: int) -> None:
        self._map[index * RECORD_BYTES] = 0
        self._free.append(index)

    def store(self, index: int, field: int, value: int) -> None:
        _INT.pack_into(self._map, index * RECORD_BYTES + field, value)

    def sync(self) -> None:
        os.fdatasync(self._fd)

    def close(self) -> None:
        self._map.close()
        os.close(self._fd)

    def _grow(self) -> None:
        old = len(self._map)
        os.posix_fallocate(self._fd, old, old)
        self._map.resize(old * 2)
        first = old // RECORD_BYTES
        self._free = list(range(first * 2 - 1, first - 1, -1))
