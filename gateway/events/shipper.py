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

BATCH_BYTES: Final = 256 << 10
SHIP: Final = """
local spool, lowest, last, frames = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
local at, count = 1, 0
while at <= #frames do
  local length, _, seq = struct.unpack('<I4I4I8', frames, at)
  if seq > last then
    redis.call('XADD', KEYS[1], '*', 's', spool, 'b', lowest, 'q', string.format('%.0f', seq),
      'e', string.sub(frames, at + 16, at + 15 + length))
    last, count = seq, count + 1
  end
  at = at + 16 + length
end
return {count, last}
"""
"""KEYS stream; ARGV spool id, lowest sequence the spool still has, last sequence shipped, frames as they lie in the
segment (`gateway.events.segment`). Returns how many were new and the last one's sequence. Redis takes the frames apart:
here it would be done on the event loop that serves requests."""
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

    async def ship_batch(self) -> bool:
        """Send the next durable frames. False: there are none, or Redis holds too many."""
        place = self._place()
        if place is None or self._stream_length > STREAM_EVENTS_MAX:
            return False
        segment, at = place
        frames = segment.durable_frames(at, BATCH_BYTES)
        # A ledger restored from an older backup must not wait for what is gone for good.
        lowest = self._spool.first_seq
        count, last = await self._script(
            keys=[USAGE_STREAM], args=[self._spool_id, lowest, self.shipped_seq, frames]
        )
        self.shipped_seq, self._cursor = int(last), (segment, at + len(frames))
        self._stream_length += int(count)
        return True

    def _place(self) -> tuple[Segment, int] | None:
        """Segment and offset of the next durable frame; None while there is none."""
        if self._cursor is None or self._cursor[0] not in self._spool.segments:
            self._cursor = self._seek()
        if self._cursor is None:
            return None
        segment, at = self._cursor
        while at >= segment.durable_at:
            following = self._following(segment)
            if following is None or segment.durable_at < segment.at:
                return None
            segment, at = following, 0
        return segment, at

    def _seek(self) -> tuple[Segment, int] | None:
        for segment in self._spool.segments:
            if segment.last_seq > self.shipped_seq:
                return segment, 0
        return None

    def _following(self, segment: Segment) -> Segment | None:
        """The segment after `segment`; None while `segment` is the one being written."""
        segments = self._spool.segments
        at = segments.index(segment) + 1
        return segments[at] if at < len(segments) else None
