"""Carries a spool to the usage stream, at least once, and lets go of what the ledger has.

Only durable frames are shipped: after a power cut a sequence number may be used again, and the ledger must not have
seen the first use. After a reconnect, or when the stream lost its memory, everything above the watermark goes again;
the ledger counts nothing twice.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from redis.exceptions import RedisError

from gateway.events.segment import Segment
from gateway.events.spool import Spool
from telemetry.events import USAGE_STREAM, WATERMARK_KEY

if TYPE_CHECKING:
    from redis.asyncio import Redis

BATCH_EVENTS: Final = 500
SHIP: Final = """
for i = 3, #ARGV, 2 do
  redis.call('XADD', KEYS[1], '*', 's', ARGV[1], 'b', ARGV[2], 'q', ARGV[i], 'e', ARGV[i + 1])
end
return (#ARGV - 2) / 2
"""
"""KEYS stream; ARGV spool id, lowest sequence the spool still has, then sequence and event in turn. One call and one
answer for a whole batch: the client library's price for a command is several times that for an argument, and it is
paid on the gateway's event loop."""
IDLE_S: Final = 0.02
WATERMARK_INTERVAL_S: Final = 0.5
STREAM_EVENTS_MAX: Final = 200_000
"""Above this the spool keeps the rest: Redis is not the place to store a backlog."""
BACKOFF_S: Final = (0.1, 0.2, 0.5, 1.0, 2.0)

log: Final = logging.getLogger(__name__)


class Shipper:
    def __init__(self, redis: Redis, spool: Spool, spool_id: str) -> None:
        self._redis, self._spool, self._spool_id = redis, spool, spool_id
        self._script = redis.register_script(SHIP)
        self.shipped_seq = 0
        self.watermark = 0
        self.connected = False
        self._failures = 0
        self._stream_length = 0
        self._cursor: tuple[Segment, int] | None = None
        self.on_watermark: Callable[[int], None] = lambda _watermark: None

    @property
    def backlog_events(self) -> int:
        return max(0, self._spool.last_seq - self.watermark)

    async def run(self) -> None:
        """For ever; a lost Redis is waited for and never an error."""
        due = 0.0
        clock = asyncio.get_running_loop().time
        while True:
            try:
                if not self.connected or clock() >= due:
                    await self.refresh()
                    due = clock() + WATERMARK_INTERVAL_S
                sent = await self.ship_batch()
            except (RedisError, OSError) as error:
                await self._lost(error)
            else:
                if not sent:
                    await asyncio.sleep(IDLE_S)

    async def _lost(self, error: Exception) -> None:
        if self.connected or not self._failures:
            log.warning("usage stream out of reach", extra={"reason": str(error)})
        self.connected = False
        wait_s = BACKOFF_S[min(self._failures, len(BACKOFF_S) - 1)]
        self._failures += 1
        await asyncio.sleep(wait_s)

    async def refresh(self) -> None:
        """Read the watermark, drop what the ledger has, and start again from there if the stream may have lost events.

        The length is read before the watermark: an empty stream whose watermark is still behind has lost events.
        """
        pipeline = self._redis.pipeline(transaction=False)
        pipeline.xlen(USAGE_STREAM)
        pipeline.hget(WATERMARK_KEY, self._spool_id)
        length, raw = await pipeline.execute()
        self._stream_length = int(length)
        self.watermark = max(self.watermark, int(raw or 0))
        forgotten = not length and self.shipped_seq > self.watermark
        if not self.connected or forgotten:
            self._rewind()
        self.connected, self._failures = True, 0
        self._spool.drop_below(self.watermark)
        self.on_watermark(self.watermark)

    def _rewind(self) -> None:
        """Whatever was shipped above the watermark may be lost."""
        self.shipped_seq = max(0, self.watermark - 1)
        self._cursor = None

    async def ship_batch(self) -> int:
        """Send the next durable frames; how many."""
        if self._stream_length > STREAM_EVENTS_MAX:
            return 0
        batch, cursor = self._next_batch()
        if not batch:
            return 0
        # A ledger restored from an older backup must not wait for what is gone for good.
        lowest = min(self._spool.first_seq, batch[0][0])
        arguments: list[str | int | bytes] = [self._spool_id, lowest]
        for seq, payload in batch:
            arguments += (seq, payload)
        await self._script(keys=[USAGE_STREAM], args=arguments)
        self.shipped_seq, self._cursor = batch[-1][0], cursor
        self._stream_length += len(batch)
        return len(batch)

    def _next_batch(self) -> tuple[list[tuple[int, bytes]], tuple[Segment, int] | None]:
        batch: list[tuple[int, bytes]] = []
        durable, cursor = self._spool.durable_seq, self._cursor or self._seek()
        while cursor is not None and len(batch) < BATCH_EVENTS:
            segment, at = cursor
            frame = segment.frame_at(at) if at < segment.at else None
            if frame is None:
                following = self._following(segment)
                if following is None:
                    break
                cursor = (following, 0)
                continue
            seq, payload, end = frame
            if seq > durable:
                break
            cursor = (segment, end)
            if seq > self.shipped_seq:
                batch.append((seq, payload))
        return batch, cursor

    def _seek(self) -> tuple[Segment, int] | None:
        for segment in self._spool.segments:
            if segment.last_seq > self.shipped_seq:
                return segment, 0
        return None

    def _following(self, segment: Segment) -> Segment | None:
        """The segment after `segment`; None while `segment` is the one being written."""
        segments = self._spool.segments
        try:
            at = segments.index(segment) + 1
        except ValueError:
            return None
        return segments[at] if at < len(segments) else None
