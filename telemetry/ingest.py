"""The writer of the ledger: usage stream -> PostgreSQL, and the beat of the live page.

One process works, any others wait (an advisory lock of the database decides). Order of a batch:
database transaction, watermark, acknowledgement; so a crash at any point only repeats work, and
repeated work changes nothing. Redis or PostgreSQL away: it waits, keeps beating, and goes on.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Any, Final

import redis
from channels.layers import get_channel_layer
from django.db import DatabaseError, InterfaceError, connection

from telemetry.clock import Clock
from telemetry.events import FINDING_STREAM, SAMPLE_STREAM, USAGE_STREAM, WATERMARK_KEY
from telemetry.hooks import UnregisteredError
from telemetry.ledger import write_position
from telemetry.live import Heard, LiveFeed
from telemetry.models import DeadLetter
from telemetry.priming import Priming
from telemetry.reader import Batch, UsageReader
from telemetry.rows import from_ms
from telemetry.samples import MinuteSums, after, position, store_findings
from telemetry.state import LIVE_GROUP
from telemetry.store import Store

LOCK: Final = 0x41_43_45_01
"""Key of the advisory lock: `ACE`, 1."""
BLOCK_MS: Final = 200
"""Longest wait for usage. A budget window that must be primed waits no longer than this."""
TICK_S: Final = 1.0
RETRY_S: Final = 0.5
FLUSH_S: Final = 10.0
CLAIM_S: Final = 30.0
SEND_TIMEOUT_S: Final = 1.0

logger = logging.getLogger(__name__)


class Ingest:
    def __init__(self, client: redis.Redis, clock: Clock) -> None:
        self._redis = client
        self._clock = clock
        self._reader = UsageReader(client)
        self._store = Store()
        self._priming = Priming(client, self._store.marks)
        self._live = LiveFeed(client, clock.unix_ms())
        self._minutes = MinuteSums()
        self._waiting = Batch()
        """Read and not yet stored: kept while the database is away."""
        self._due: dict[str, float] = {}
        self._storing = False
        self._has_rival = False
        """Another process is the writer: it beats, we are silent."""
        self._samples_stored = ""
        self._dead_letters = 0
        self._as_of_ms = 0
        self._runner = asyncio.Runner()

    # -- the loop ----------------------------------------------------------------------------------

    def run(self, stop: threading.Event) -> None:
        """Until `stop`. Raises only what is a fault of ours."""
        while not stop.is_set() and not self._become_writer():
            stop.wait(1.0)
        while not stop.is_set():
            if not self.step():
                stop.wait(0.05)
        self._runner.close()

    def step(self) -> bool:
        """One round: read, store, prime, and what is due by the clock. False: something was away."""
        well = self._try(self._consume)
        if well:
            well = self._try(self._prime)
        if not self._has_rival and self._is_due("tick", TICK_S):
            self._tick()
        if well and self._storing and self._is_due("claim", CLAIM_S):
            well = self._try(self._reader.claim)
        if self._storing and self._is_due("flush", FLUSH_S):
            self._try(self._flush)
        return well

    def _try(self, work: Any) -> bool:
        try:
            work()
        except redis.RedisError as error:
            self._reader.reread()
            self._say_once("redis", "Redis is out of reach, usage waits in the spools: %s", error)
        except (DatabaseError, InterfaceError) as error:
            self._lose_database(error)
        else:
            return True
        return False

    def _lose_database(self, error: Exception) -> None:
        """The connection goes, and with it the lock: whoever gets it next is the writer."""
        self._say_once("database", "the database is out of reach, usage waits: %s", error)
        self._storing = False
        self._due["database"] = self._clock.monotonic_s() + RETRY_S
        _drop_connection()

    def _say_once(self, what: str, text: str, error: Exception) -> None:
        if self._is_due(f"say-{what}", 10.0):
            logger.warning(text, error)

    def _is_due(self, what: str, every_s: float) -> bool:
        now = self._clock.monotonic_s()
        due = self._due.get(what, 0.0)
        if now < due:
            return False
        # Beats keep their rhythm; after a pause they do not catch up.
        self._due[what] = max(due + every_s, now) if due else now + every_s
        return True

    # -- being the writer --------------------------------------------------------------------------

    def _become_writer(self) -> bool:
        return self._try(self._take_lock) and self._storing

    def _take_lock(self) -> None:
        """Once per database connection; also takes up what stands in the database."""
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_try_advisory_lock(%s)", [LOCK])
            row = cursor.fetchone()
        self._storing = bool(row and row[0])
        self._has_rival = not self._storing
        if self._has_rival:
            return
        self._samples_stored = position(SAMPLE_STREAM)
        self._live.findings_id = position(FINDING_STREAM)
        self._dead_letters = DeadLetter.objects.count()
        self._live.restore(self._clock.unix_ms())
        self._publish_marks()

    def _publish_marks(self) -> None:
        """A Redis that lost its memory learns how far each spool is in the ledger."""
        self._set_marks(self._store.marks())

    def _set_marks(self, marks: dict[str, int]) -> None:
        if marks:
            values: dict[Any, Any] = {name: str(mark) for name, mark in marks.items()}
            self._redis.hset(WATERMARK_KEY, mapping=values)

    # -- usage -------------------------------------------------------------------------------------

    def _consume(self) -> None:
        if not self._storing:
            self._pause_for_database()
            return
        if not self._waiting:
            self._waiting = self._reader.read(self._block_ms())
            if self._reader.forgotten:
                self._publish_marks()
                self._reader.forgotten = False
        if not self._waiting:
            self._drained()
            return
        batch = self._waiting
        stored = self._store.write(batch, from_ms(self._clock.unix_ms()))
        self._waiting = Batch()
        self._live.add(stored.seen)
        self._dead_letters += stored.dead
        self._as_of_ms = max(self._as_of_ms, batch.last_ms)
        self._set_marks(stored.marks)
        self._reader.acknowledge(batch)

    def _block_ms(self) -> int:
        left_s = self._due.get("tick", 0.0) - self._clock.monotonic_s()
        return max(1, min(BLOCK_MS, int(left_s * 1000)))

    def _drained(self) -> None:
        """Nothing waits: everything until now is counted."""
        self._as_of_ms = self._clock.unix_ms()
        if self._is_due("as_of", TICK_S):
            write_position(USAGE_STREAM, "", from_ms(self._as_of_ms))

    def _pause_for_database(self) -> None:
        if self._clock.monotonic_s() >= self._due.get("database", 0.0):
            self._due["database"] = self._clock.monotonic_s() + RETRY_S
            self._take_lock()
        if not self._storing:
            threading.Event().wait(self._block_ms() / 1000)

    def _prime(self) -> None:
        if not self._storing:
            return
        try:
            self._priming.answer()
        except UnregisteredError:
            self._say_once("lookup", "budget windows cannot be primed: no lookup (%s)", KeyError())

    # -- by the clock ------------------------------------------------------------------------------

    def _tick(self) -> None:
        now_ms = self._clock.unix_ms()
        heard = self._hear(now_ms)
        state = self._live.tick(
            heard,
            now_ms,
            as_of_ms=self._as_of_ms,
            dead_letters=self._dead_letters,
            storing=self._storing,
        )
        if heard is not None and self._try(lambda: self._live.publish(state, heard.scopes)):
            self._announce(state.seq)

    def _hear(self, now_ms: int) -> Heard | None:
        try:
            heard = self._live.hear(now_ms)
        except redis.RedisError as error:
            self._say_once("redis", "Redis is out of reach, the live page waits: %s", error)
            return None
        fresh = [e for e in heard.samples if after(e[0], self._samples_stored or "0-0")]
        self._minutes.add(fresh)
        if heard.findings and self._storing:
            self._try(lambda: self._keep_findings(heard))
        return heard

    def _keep_findings(self, heard: Heard) -> None:
        store_findings(heard.findings, from_ms(self._clock.unix_ms()))
        self._live.findings_id = heard.findings[-1][0].decode()

    def _flush(self) -> None:
        self._minutes.flush(from_ms(self._clock.unix_ms()))
        self._publish_marks()

    def _announce(self, seq: int) -> None:
        """The channel layer may lose it: watchers look for themselves when a beat is missing."""
        layer = get_channel_layer()
        if layer is None:
            return
        try:
            send = layer.group_send(LIVE_GROUP, {"type": "live.tick", "seq": seq})
            self._runner.run(asyncio.wait_for(send, SEND_TIMEOUT_S))
        except (redis.RedisError, OSError, TimeoutError) as error:
            self._say_once("layer", "the live page was not told: %s", error)


def _drop_connection() -> None:
    """Closed for good: given back to a pool alive, it would keep the lock."""
    if connection.connection is not None:
        connection.connection.close()
    connection.close()
