"""Hot reload: hear of a new snapshot, verify and build it off the event loop, swap one reference, say so.

Announcements come by pub/sub; a poll each second catches those that were lost, doubled or out of order. Only a higher
version is ever taken. On any failure the old plan stays in force and the worker says why.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypeVar

from redis.exceptions import RedisError

from gateway.snapshot.last_known_good import LastKnownGood
from gateway.snapshot.store import SnapshotStore
from gateway.snapshot.verify import Build, Verified, verify
from policies.schema import wire

if TYPE_CHECKING:
    from redis.asyncio import Redis

POLL_S: Final = 1.0
RETRY_REFUSED_S: Final = 10.0
BACKOFF_S: Final = 0.5
log: Final = logging.getLogger(__name__)

Plan = TypeVar("Plan")


class WatchState:
    """What a worker reports of its snapshots."""

    __slots__ = ("ack_ms", "actual", "compile_ms", "compiling", "desired", "reached_at", "reason")

    def __init__(self) -> None:
        self.desired = self.actual = 0
        self.reason = "no snapshot yet"
        self.ack_ms: float | None = None
        self.compile_ms: float | None = None
        self.compiling = False
        self.reached_at = 0.0
        """Monotonic seconds when Redis was last asked with success; 0: never."""

    @property
    def name(self) -> Literal["ack", "nack", "compiling"]:
        if self.compiling:
            return "compiling"
        return "nack" if self.reason else "ack"


class Watcher(Generic[Plan]):
    def __init__(
        self,
        redis: Redis,
        store: SnapshotStore[Plan],
        secret: bytes,
        build: Build[Plan],
        last_known_good: LastKnownGood,
    ) -> None:
        self._redis, self._store, self._secret = redis, store, secret
        self._build, self._lkg = build, last_known_good
        self.state = WatchState()
        self.on_swap: Callable[[Plan], None] = lambda _plan: None
        self.on_change: Callable[[], Awaitable[None]] = _nothing
        """Called after each ACK and NACK."""
        self.on_revoked: Callable[[str], None] = lambda _digest: None
        self.poll_more: Callable[[], Awaitable[None]] = _nothing
        """Whatever else is polled at the same pace; the revocations."""
        self._refused: tuple[int, float] = (0, 0.0)
        self._heard: float | None = None
        self._wake = asyncio.Event()

    async def start(self) -> None:
        """Have a plan if there is any: from Redis, else from the disk."""
        try:
            async with asyncio.timeout(2 * POLL_S):
                await self.poll()
        except (RedisError, OSError, TimeoutError) as error:
            log.warning("snapshot not in reach", extra={"reason": str(error)})
        if self._store.current is None:
            await self.load_last_known_good()

    async def load_last_known_good(self) -> None:
        try:
            envelope = await asyncio.to_thread(self._lkg.read)
        except OSError as error:
            self.state.reason = f"last_known_good_unreadable: {error}"
            return
        if envelope is None:
            return
        verified = await asyncio.to_thread(verify, envelope, self._secret, self._build)
        if verified.plan is None:
            self.state.reason = f"last known good: {verified.reason}"
            log.error("the last known good snapshot was refused", extra={"reason": verified.reason})
            return
        self._swap(verified, verified.plan)
        log.info("serving the last known good snapshot", extra={"version": verified.version})

    # -- running -----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Poll each second, and at once when something is announced."""
        while True:
            try:
                await self.poll()
                await self.poll_more()
            except (RedisError, OSError) as error:
                log.debug("poll failed", extra={"reason": str(error)})
            try:
                async with asyncio.timeout(POLL_S):
                    await self._wake.wait()
            except TimeoutError:
                pass
            self._wake.clear()

    async def listen(self, redis: Redis) -> None:
        """Announcements, for ever; a lost connection is opened again. `redis` must not time out on silence."""
        while True:
            try:
                async with redis.pubsub(ignore_subscribe_messages=True) as channel:
                    await channel.subscribe(wire.SNAPSHOT_CHANNEL, wire.REVOCATIONS_CHANNEL)
                    self._wake.set()  # what was announced while nobody listened
                    async for message in channel.listen():
                        self._hear(message)
            except (RedisError, OSError) as error:
                log.debug("announcements lost", extra={"reason": str(error)})
            await asyncio.sleep(BACKOFF_S)

    def _hear(self, message: dict[str, Any]) -> None:
        channel, data = _text(message["channel"]), _text(message["data"])
        if channel == wire.REVOCATIONS_CHANNEL:
            self.on_revoked(data)
        elif self._heard is None:
            self._heard = time.perf_counter()
        self._wake.set()

    async def poll(self) -> None:
        """Take the snapshot in Redis if it is newer than ours."""
        announced = self._heard if self._heard is not None else time.perf_counter()
        self._heard = None
        raw = await self._redis.hget(wire.SNAPSHOT_KEY, "version")
        self.state.reached_at = time.monotonic()
        version = int(raw) if raw is not None and raw.isdigit() else 0
        if not self._wanted(version):
            return
        self.state.desired = version
        envelope = await self._redis.hget(wire.SNAPSHOT_KEY, "envelope")
        await self.take(_bytes(envelope), version, announced)

    def _wanted(self, version: int) -> bool:
        if version <= self.state.actual:
            return False
        refused, at = self._refused
        return version != refused or time.monotonic() - at > RETRY_REFUSED_S

    async def take(self, envelope: bytes, version: int, announced: float) -> None:
        """Verify, build, swap; or refuse and keep the old one. Says so at once, either way."""
        state = self.state
        state.desired, state.compiling = max(state.desired, version), True
        try:
            verified = await asyncio.to_thread(verify, envelope, self._secret, self._build)
        finally:
            state.compiling = False
        state.compile_ms = verified.compile_ms
        if verified.plan is None:
            self._refuse(version, verified.reason)
        elif verified.version <= state.actual:
            self._refuse(version, "snapshot_version_not_higher")
        else:
            self._swap(verified, verified.plan)
            state.ack_ms = (time.perf_counter() - announced) * 1000
            await self._keep(envelope)
        await self.on_change()

    def _refuse(self, version: int, reason: str) -> None:
        self.state.reason = reason
        self._refused = version, time.monotonic()
        log.error("snapshot refused", extra={"version": version, "reason": reason})

    def _swap(self, verified: Verified[Plan], plan: Plan) -> None:
        self._store.current = plan
        state = self.state
        state.actual, state.reason, state.compile_ms = verified.version, "", verified.compile_ms
        state.desired = max(state.desired, verified.version)
        self.on_swap(plan)

    async def _keep(self, envelope: bytes) -> None:
        """A disk that cannot take it costs the next cold start, not this swap."""
        try:
            await asyncio.to_thread(self._lkg.write, envelope)
        except OSError as error:
            log.error("last known good cannot be written", extra={"reason": str(error)})  # noqa: TRY400


async def _nothing() -> None:
    return None


def _bytes(value: str | bytes | None) -> bytes:
    return value.encode() if isinstance(value, str) else value or b""


def _text(value: str | bytes) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
