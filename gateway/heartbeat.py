"""What a worker says of itself, once a second and after every ACK and NACK, and whom else it sees alive."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import msgspec
from redis.exceptions import RedisError

from policies.schema import wire
from policies.schema.report import WorkerReport

if TYPE_CHECKING:
    from redis.asyncio import Redis

INTERVAL_S: Final = 1.0
LIVE_MS: Final = 10_000
FORGOTTEN_MS: Final = 600_000
log: Final = logging.getLogger(__name__)

_decode: Final = msgspec.json.Decoder(WorkerReport).decode


class Heartbeat:
    """`make` gives the report of this moment; `see` is told how many workers live."""

    def __init__(
        self,
        redis: Redis,
        place: str,
        make: Callable[[str], WorkerReport],
        see: Callable[[int], None],
    ) -> None:
        """`place`: host and slot, the same for every process that ever runs there."""
        self._redis, self._place, self._make, self._see = redis, place, make, see
        self.worker_id: Final = f"{place}-{os.getpid()}"
        self.reached = False

    async def run(self) -> None:
        while True:
            await self.beat()
            await asyncio.sleep(INTERVAL_S)

    async def beat(self) -> None:
        try:
            await self._redis.hset(
                wire.WORKERS_KEY, self.worker_id, msgspec.json.encode(self._make(self.worker_id))
            )
            await self._look_around()
        except (RedisError, OSError) as error:
            self.reached = False
            log.debug("heartbeat failed", extra={"reason": str(error)})
        else:
            self.reached = True

    async def _look_around(self) -> None:
        """Count the living; remove the long dead and this slot's earlier processes."""
        now_ms = time.time_ns() // 1_000_000
        places, dead = {self._place}, []
        for raw_id, raw in (await self._redis.hgetall(wire.WORKERS_KEY)).items():
            worker_id = raw_id.decode() if isinstance(raw_id, bytes) else raw_id
            place = worker_id.rpartition("-")[0]
            age_ms = now_ms - _heartbeat_ms(raw)
            if age_ms > FORGOTTEN_MS or (place == self._place and worker_id != self.worker_id):
                dead.append(worker_id)
            elif age_ms < LIVE_MS:
                places.add(place)
        if dead:
            await self._redis.hdel(wire.WORKERS_KEY, *dead)
        self._see(len(places))

    async def farewell(self) -> None:
        """A worker that stops on purpose leaves the list."""
        try:
            await self._redis.hdel(wire.WORKERS_KEY, self.worker_id)
        except (RedisError, OSError):
            log.debug("could not leave the list of workers")


def _heartbeat_ms(raw: bytes | str) -> int:
    try:
        return _decode(raw).heartbeat_ms
    except msgspec.MsgspecError:
        return 0
