"""The Redis side of ingest: reads the usage stream in batches, decodes, acknowledges.

One consumer name for whoever is the writer: after a crash its successor reads what was handed out and
never acknowledged under the same name. What other names hold (an older version's) is claimed.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import msgspec
import redis

from telemetry import events
from telemetry.rows import Delivery, fault

CONSUMER: Final = "writer"
BATCH: Final = 1000
CLAIM_IDLE_MS: Final = 30_000
_MAX_SPOOL_ID: Final = 128
_MAX_SEQUENCE: Final = 2**62

logger = logging.getLogger(__name__)


class Dead(NamedTuple):
    """An entry nobody can read, on its way to the dead letters."""

    stream_id: str
    origin: str
    reason: str
    detail: str
    payload: bytes
    spool_id: str = ""
    sequence: int = 0


@dataclass(slots=True)
class Batch:
    deliveries: list[Delivery] = field(default_factory=list)
    dead: list[Dead] = field(default_factory=list)
    stream_ids: list[bytes] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.stream_ids)

    @property
    def last_ms(self) -> int:
        """When the newest entry reached Redis."""
        return max(int(stream_id.partition(b"-")[0]) for stream_id in self.stream_ids)


class UsageReader:
    def __init__(self, client: redis.Redis) -> None:
        self._redis = client
        self._cursor = "0"
        """`0`: entries handed out before and not acknowledged; `>`: new ones."""
        self.forgotten = False
        """Redis had no group for us: it lost its memory, the watermarks with it."""

    def read(self, block_ms: int) -> Batch:
        """Up to BATCH entries; empty after `block_ms` without any. Raises redis.RedisError."""
        try:
            return self._read(block_ms)
        except redis.ResponseError as error:
            self._begin_anew(error)
            return Batch()

    def reread(self) -> None:
        """Something handed out may not have been acknowledged: begin with that next time."""
        self._cursor = "0"

    def acknowledge(self, batch: Batch) -> None:
        """Called when the database has it all. Only then may Redis forget the entries."""
        ids = batch.stream_ids
        with self._redis.pipeline(transaction=False) as pipe:
            pipe.xack(events.USAGE_STREAM, events.USAGE_GROUP, *ids)
            pipe.xdel(events.USAGE_STREAM, *ids)
            pipe.execute()

    def claim(self) -> None:
        """Take over what a consumer of another name has left lying. Raises redis.RedisError."""
        try:
            answer: Any = self._redis.xautoclaim(
                events.USAGE_STREAM,
                events.USAGE_GROUP,
                CONSUMER,
                min_idle_time=CLAIM_IDLE_MS,
                count=BATCH,
                justid=True,
            )
        except redis.ResponseError as error:
            self._begin_anew(error)
            return
        if answer:
            self.reread()

    def _read(self, block_ms: int) -> Batch:
        waits = block_ms if self._cursor == ">" else None
        answer: Any = self._redis.xreadgroup(
            events.USAGE_GROUP,
            CONSUMER,
            {events.USAGE_STREAM: self._cursor},
            count=BATCH,
            block=waits,
        )
        entries = answer[0][1] if answer else []
        if not entries and self._cursor != ">":
            self._cursor = ">"
        return decode_batch(entries)

    def _begin_anew(self, error: redis.ResponseError) -> None:
        if "NOGROUP" not in str(error):
            raise error
        self._make_group()

    def _make_group(self) -> None:
        """Redis came back empty. Begin at the start: shippers may have been faster than we."""
        self.forgotten = True
        try:
            self._redis.xgroup_create(
                events.USAGE_STREAM, events.USAGE_GROUP, id="0", mkstream=True
            )
        except redis.ResponseError as error:
            if "BUSYGROUP" not in str(error):
                raise


def decode_batch(entries: Iterable[tuple[bytes, dict[bytes, bytes] | None]]) -> Batch:
    batch = Batch()
    for stream_id, fields in entries:
        batch.stream_ids.append(stream_id)
        if not fields:
            continue  # deleted from the stream while it was pending: it is in the ledger
        item = _decode(stream_id.decode(), fields)
        if isinstance(item, Dead):
            batch.dead.append(item)
        else:
            batch.deliveries.append(item)
    return batch


def _decode(stream_id: str, fields: dict[bytes, bytes]) -> Delivery | Dead:
    payload = fields.get(b"e", b"")
    try:
        spool_id = fields[b"s"].decode("ascii")
        sequence, base = int(fields[b"q"]), int(fields.get(b"b", b"0"))
    except (KeyError, ValueError) as error:
        return Dead(stream_id, f"stream:{stream_id}", "entry_malformed", repr(error), payload)
    if not _plausible(spool_id, sequence, base):
        return Dead(stream_id, f"stream:{stream_id}", "entry_out_of_range", "", payload)
    origin = f"{spool_id}:{sequence}"
    try:
        event = events.decode(payload)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        return Dead(stream_id, origin, "event_unreadable", str(error), payload, spool_id, sequence)
    if reason := fault(event):
        return Dead(stream_id, origin, reason, "", payload, spool_id, sequence)
    return Delivery(stream_id, spool_id, sequence, base, event)


def _plausible(spool_id: str, sequence: int, base: int) -> bool:
    named = 0 < len(spool_id) <= _MAX_SPOOL_ID and spool_id.isprintable()
    return named and 0 <= sequence < _MAX_SEQUENCE and 0 <= base <= sequence
