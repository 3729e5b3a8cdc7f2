"""The durable outbox of one worker: events are copied into mapped segments and made durable in groups by a thread.

A killed process loses nothing that was appended; a power cut loses at most the last 20 ms. A request may only start
when there is room to record its end, so a full disk turns into refusals and never into work that is not billed.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import Final

from gateway.events.segment import HEADER, Segment, allocate, segment_path

SYNC_INTERVAL_S: Final = 0.02
RETRY_INTERVAL_S: Final = 0.5
FINISH_RESERVE_BYTES: Final = 1024
"""Room kept for the end of each request in flight."""

log: Final = logging.getLogger(__name__)


class SpoolFullError(Exception):
    """No room to record the request: it must not start."""


class Spool:
    """Appends come from the event loop only. The thread writes `durable_seq` and the spare; the rest it only reads."""

    def __init__(
        self, directory: Path, segments: list[Segment], segment_bytes: int, max_bytes: int
    ) -> None:
        self._directory, self._segment_bytes, self._max_bytes = directory, segment_bytes, max_bytes
        self.segments: Final = deque(segments)
        self.last_seq = segments[-1].last_seq if segments else 0
        self.durable_seq = self.last_seq
        for segment in segments:
            segment.durable_at = segment.at
        self.in_flight = 0
        self.deferred: Final[deque[bytes]] = deque()
        """Ends that found no room; written first when there is some again."""
        self.on_sync: Callable[[], None] | None = None
        """More to make durable in the same breath: the lease table."""
        self._spare = directory / "spare.tmp"
        self._spare_ready = False
        self._retry_at = 0.0
        self._unsynced: deque[Segment] = deque()
        self._wake, self._closing = threading.Event(), False
        self._syncing = threading.Lock()
        self._current = self._roll()
        self._syncer = threading.Thread(target=self._run, name="spool-sync", daemon=True)
        self._syncer.start()

    # -- appending ---------------------------------------------------------------------------------------------------

    def open(self, payload: bytes) -> Segment:
        """Record the start of a request; the segment goes into `finish`. SpoolFullError: refuse it."""
        if self.deferred or not self.has_room(len(payload)):
            raise SpoolFullError
        segment = self._append(payload)
        segment.open_requests += 1
        self.in_flight += 1
        return segment

    def finish(self, segment: Segment, payload: bytes) -> int:
        """Record the one end of an opened request; its sequence number, or the next one if it had to be put off."""
        segment.open_requests -= 1
        self.in_flight -= 1
        return self.record(payload)

    def record(self, payload: bytes) -> int:
        """Record an event that must not be lost."""
        try:
            self._append(payload)
        except SpoolFullError:
            self.deferred.append(payload)
            return self.last_seq + len(self.deferred)
        return self.last_seq

    def note(self, payload: bytes) -> None:
        """Record an event that may be dropped when room is short: a checkpoint, a refusal."""
        if self.has_room(len(payload)):
            self._append(payload)

    def has_room(self, payload_bytes: int) -> bool:
        need = (self.in_flight + 1) * FINISH_RESERVE_BYTES + payload_bytes + HEADER.size
        spare = self._segment_bytes if self._spare_ready else 0
        return self._current.free_bytes + spare >= need and (
            self._spare_ready or self._current.fits(payload_bytes)
        )

    @property
    def full(self) -> bool:
        return bool(self.deferred) or not self.has_room(FINISH_RESERVE_BYTES)

    def _append(self, payload: bytes) -> Segment:
        segment = self._current
        if not segment.fits(len(payload)):
            if not self._spare_ready:
                self._wake.set()
                raise SpoolFullError
            segment = self._current = self._roll()
        self.last_seq += 1
        segment.append(self.last_seq, payload)
        if not self._wake.is_set():
            self._wake.set()
        return segment

    def _roll(self) -> Segment:
        if not self._spare_ready:
            allocate(self._spare, self._segment_bytes)
        path = segment_path(self._directory, self.last_seq + 1)
        self._spare.rename(path)
        self._spare_ready = False
        segment = Segment(path, self.last_seq + 1)
        self._unsynced.append(segment)
        self.segments.append(segment)
        return segment

    def write_deferred(self) -> None:
        """Called from the event loop once a second: ends that waited for room go first."""
        while self.deferred:
            try:
                self._append(self.deferred[0])
            except SpoolFullError:
                return
            self.deferred.popleft()

    # -- letting go --------------------------------------------------------------------------------------------------

    def drop_below(self, watermark: int) -> int:
        """Remove whole segments, oldest first, that the ledger has and that no open request needs; how many."""
        dropped = 0
        while len(self.segments) > 1:
            oldest = self.segments[0]
            if oldest.last_seq >= watermark or oldest.open_requests or oldest in self._unsynced:
                break
            self.segments.popleft().remove()
            dropped += 1
        return dropped

    @property
    def first_seq(self) -> int:
        """The lowest sequence that is still here, or will be the next."""
        return self.segments[0].base_seq

    @property
    def bytes_on_disk(self) -> int:
        return len(self.segments) * self._segment_bytes

    # -- the thread --------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._closing:
            self._wake.wait(RETRY_INTERVAL_S)
            self._wake.clear()
            self._keep_spare()
            threading.Event().wait(SYNC_INTERVAL_S)
            self._sync_safely()

    def _sync_safely(self) -> None:
        try:
            self.sync()
        except OSError:
            log.exception("spool cannot be made durable")

    def sync(self) -> None:
        """Make everything appended so far durable. Any thread may call it; one works, another waits."""
        with self._syncing:
            seq, current = self.last_seq, self._current
            if seq == self.durable_seq and self.on_sync is None:
                return
            for segment in list(self._unsynced):
                segment.sync()
                if segment is not current:
                    self._unsynced.remove(segment)
            if self.on_sync is not None:
                self.on_sync()
            self.durable_seq = max(self.durable_seq, seq)

    def _keep_spare(self) -> None:
        """Have the next segment ready before it is needed, so that the event loop never waits for the disk."""
        if self._spare_ready or monotonic() < self._retry_at:
            return
        try:
            if self.bytes_on_disk + self._segment_bytes > self._max_bytes:
                raise OSError("the spool has reached its size limit")  # noqa: TRY301
            allocate(self._spare, self._segment_bytes)
        except OSError as error:
            self._retry_at = monotonic() + RETRY_INTERVAL_S
            log.warning("no room for another spool segment", extra={"reason": str(error)})
        else:
            self._spare_ready = True

    def close(self) -> None:
        self._closing = True
        self._wake.set()
        self._syncer.join()
        self._sync_safely()
        for segment in self.segments:
            segment.close()
        self._spare.unlink(missing_ok=True)
