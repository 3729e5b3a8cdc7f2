"""One preallocated, memory-mapped file of frames.

A frame is `u32 length | u32 crc32 | u64 seq | payload`, little endian; the CRC covers seq and payload. Bytes copied
into a shared mapping survive the death of the process, so an append costs no system call. The file is allocated in
full beforehand: a full disk fails there with an OSError and never later as SIGBUS.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from zlib import crc32

HEADER: Final = struct.Struct("<IIQ")
_pack: Final = HEADER.pack
_seq: Final = struct.Struct("<Q").pack
_length: Final = struct.Struct("<I").unpack_from
PREFIX: Final = "segment-"
SUFFIX: Final = ".spool"


class Segment:
    """Frames `base_seq..last_seq`; `last_seq` is `base_seq - 1` while it is empty."""

    __slots__ = (
        "_fd",
        "_map",
        "at",
        "base_seq",
        "durable_at",
        "last_seq",
        "open_requests",
        "path",
        "size",
    )

    def __init__(self, path: Path, base_seq: int) -> None:
        self.path, self.base_seq = path, base_seq
        self._fd = os.open(path, os.O_RDWR)
        self.size = os.fstat(self._fd).st_size
        self._map = mmap.mmap(self._fd, self.size)
        self.at, self.last_seq = 0, base_seq - 1
        self.durable_at = 0
        """How far a power cut cannot reach; always between two frames."""
        self.open_requests = 0
        """Requests opened in this file and not yet finished: while there is one, the file must stay."""

    def fits(self, payload_bytes: int) -> bool:
        return self.at + HEADER.size + payload_bytes <= self.size

    @property
    def free_bytes(self) -> int:
        return self.size - self.at

    def append(self, seq: int, payload: bytes) -> None:
        """Copy one frame in. The caller has asked `fits`."""
        end = self.at + HEADER.size + len(payload)
        crc = crc32(payload, crc32(_seq(seq)))
        self._map[self.at : end] = _pack(len(payload), crc, seq) + payload
        self.at, self.last_seq = end, seq

    def durable_frames(self, at: int, most_bytes: int) -> bytes:
        """Whole durable frames from offset `at`, as they lie here; at least one if there is any."""
        end, durable = at, self.durable_at
        if durable - at <= most_bytes:
            return self._map[at:durable]
        while end < durable:
            following = end + HEADER.size + _length(self._map, end)[0]
            if following - at > most_bytes and end > at:
                break
            end = following
        return self._map[at:end]

    def frame_at(self, at: int) -> tuple[int, bytes, int] | None:
        """(seq, payload, offset of the next frame), or None where the written part ends or is torn."""
        body = at + HEADER.size
        if body > self.size:
            return None
        length, crc, seq = HEADER.unpack_from(self._map, at)
        if length == 0 or body + length > self.size:
            return None
        payload = self._map[body : body + length]
        if crc32(payload, crc32(_seq(seq))) != crc:
            return None
        return seq, payload, body + length

    def frames(self) -> Iterator[tuple[int, bytes]]:
        """Every whole frame, in order. Leaves `at` and `last_seq` behind the last one."""
        at = 0
        while (frame := self.frame_at(at)) is not None:
            seq, payload, at = frame
            self.at, self.last_seq = at, seq
            yield seq, payload

    def sync(self) -> None:
        """Make everything appended so far durable. May run in another thread than `append`."""
        at = self.at
        os.fdatasync(self._fd)
        self.durable_at = at

    def close(self) -> None:
        self._map.close()
        os.close(self._fd)

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)
        self.close()


def allocate(path: Path, size: int) -> None:
    """Make `path` a file of `size` zero bytes with all its blocks. OSError when the disk is full."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        os.posix_fallocate(fd, 0, size)
    except OSError:
        path.unlink(missing_ok=True)
        raise
    finally:
        os.close(fd)


def segment_path(directory: Path, base_seq: int) -> Path:
    return directory / f"{PREFIX}{base_seq:020d}{SUFFIX}"


def existing_segments(directory: Path) -> list[Segment]:
    """Segments on disk, oldest first."""
    paths = sorted(directory.glob(f"{PREFIX}*{SUFFIX}"))
    return [Segment(path, int(path.stem.removeprefix(PREFIX))) for path in paths]
