"""Slots that no worker runs any more, after the number of workers was lowered: their events still have to arrive."""

from __future__ import annotations

import asyncio
import logging
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gateway import tasks
from gateway.events import recovery
from gateway.events.shipper import Shipper
from gateway.events.slot import Slot, SlotBusyError
from gateway.events.spool import Spool
from gateway.limits.keeper import LeaseKeeper, unix_ms
from gateway.limits.leases import LeaseBook
from gateway.limits.table import LeaseTable
from gateway.settings import Settings
from telemetry.events import RequestOpened

if TYPE_CHECKING:
    from redis.asyncio import Redis

SETTLE_S: Final = 1.0
log: Final = logging.getLogger(__name__)


async def adopt_orphans(settings: Settings, redis: Redis) -> None:
    """Recover and ship each slot beyond the number of workers, give its leases back, then let it rest on disk."""
    for directory in orphans(settings):
        try:
            slot = await asyncio.to_thread(Slot, directory, settings.node, 0.0)
        except (SlotBusyError, OSError) as error:
            log.info("slot left alone", extra={"slot": directory.name, "reason": str(error)})
            continue
        try:
            await _drain(settings, redis, slot)
        finally:
            slot.close()


def orphans(settings: Settings) -> list[Path]:
    slots = settings.directory / "slots"
    found = [path for path in slots.glob("*") if path.name.isdigit()]
    return sorted(path for path in found if int(path.name) >= settings.workers)


async def _drain(settings: Settings, redis: Redis, slot: Slot) -> None:
    table = LeaseTable(slot.directory / "leases.bin")
    book = LeaseBook(table)
    found = recovery.read(slot.directory)
    spool = Spool(slot.directory, found.segments, settings.segment_bytes, settings.spool_max_bytes)

    def charge(opened: RequestOpened, billed: int) -> None:
        book.charge_recovered(opened.budget_ids, opened.opened_at_ms, billed)

    recovery.close_interrupted(found, spool.record, charge, unix_ms())
    keeper = LeaseKeeper(redis, book, slot.spool_id, lambda: spool.last_seq)
    shipper = Shipper(redis, spool, slot.spool_id)
    shipping = tasks.spawn(shipper.run(), f"ship-slot-{slot.number}")
    returning = tasks.spawn(keeper.run(), f"return-slot-{slot.number}")
    try:
        while shipper.watermark < spool.last_seq or any(  # noqa: ASYNC110
            lease.stale or lease.free > 0 for lease in book.leases.values()
        ):
            await asyncio.sleep(SETTLE_S)
        log.info("slot drained", extra={"slot": slot.number, "at": time.monotonic_ns()})
    finally:
        await tasks.cancel(shipping, returning)
        spool.close()
        table.close()
