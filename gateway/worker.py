"""One worker: everything a slot owns, put together once and taken apart in the reverse order."""

from __future__ import annotations

import asyncio
import gc
import logging
import time
from typing import Any, Final

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from gateway import tasks
from gateway.controller import Controller
from gateway.events import recovery
from gateway.events.orphans import adopt_orphans
from gateway.events.shipper import Shipper
from gateway.events.slot import Slot
from gateway.events.spool import Spool
from gateway.heartbeat import Heartbeat
from gateway.host import GatewayHost
from gateway.limits.keeper import LeaseKeeper
from gateway.limits.leases import LeaseBook
from gateway.limits.table import LeaseTable
from gateway.metrics import Metrics
from gateway.pipeline.build import PlanBuilder
from gateway.pipeline.engine import Engine
from gateway.pipeline.plan import RuntimePlan
from gateway.settings import Settings
from gateway.snapshot.last_known_good import LastKnownGood
from gateway.snapshot.store import SnapshotStore
from gateway.snapshot.watcher import Watcher
from gateway.upstream.pool import Pools
from policies.schema.report import WorkerReport
from policies.schema.snapshot import Snapshot
from telemetry.events import RequestOpened

REDIS_TIMEOUT_S: Final = 1.0
LEASE_TIMEOUT_S: Final = 0.5
STALE_S: Final = 60.0
HOUSEKEEPING_S: Final = 1.0
RETIRE_S: Final = 30.0
"""How long the way to a removed endpoint stays open for requests pinned to the old snapshot."""
log: Final = logging.getLogger(__name__)


class Worker:
    """Built and recovered outside the event loop, started inside it."""

    def __init__(self, settings: Settings, slot_number: int = 0) -> None:
        self.settings = settings
        self.slot = Slot(settings.slot_directory(slot_number), settings.node)
        self.metrics = Metrics(self.slot.directory)
        self._table = LeaseTable(self.slot.directory / "leases.bin")
        self.book = LeaseBook(self._table)
        self.spool = self._recovered_spool()
        self.host = GatewayHost(self._skill_failed)
        self.store: SnapshotStore[RuntimePlan] = SnapshotStore()
        self.pools = Pools()
        self._connect()
        self.builder = PlanBuilder(
            settings.snapshot_secret, self.host, self.book, self.metrics, self.pools.get
        )
        self.builder.share.workers = settings.workers
        self.engine = Engine(self.store, settings.key_pepper, self.spool, self.keeper, self.metrics)
        self._watch()
        self._tasks: list[asyncio.Task[Any]] = []

    def _connect(self) -> None:
        """Three clients: leases give up sooner than the rest, and announcements never time out."""
        url, place = self.settings.redis_url, f"{self.settings.node}-{self.slot.number}"
        self._redis = redis_client(url, REDIS_TIMEOUT_S)
        self._lease_redis = redis_client(url, LEASE_TIMEOUT_S)
        self._listen_redis = redis_client(url, None)
        self.shipper = Shipper(self._redis, self.spool, self.slot.spool_id)
        self.keeper = LeaseKeeper(
            self._lease_redis, self.book, self.slot.spool_id, lambda: self.spool.last_seq
        )
        self.shipper.on_watermark = self.keeper.saw_watermark
        self.heartbeat = Heartbeat(self._redis, place, self._report, self._saw_workers)
        self.controller = Controller(self._listen_redis, self.store, self.host)

    def _watch(self) -> None:
        settings = self.settings
        self.watcher: Watcher[RuntimePlan] = Watcher(
            self._redis,
            self.store,
            settings.snapshot_secret,
            self._build,
            LastKnownGood(settings.directory),
        )
        self.watcher.on_swap = self._swapped
        self.watcher.on_change = self.heartbeat.beat
        revocations = self.engine.revocations
        self.watcher.on_revoked = lambda digest: revocations.add((digest,))
        self.watcher.poll_more = lambda: revocations.poll(self._redis)

    def _build(self, snapshot: Snapshot, sha256: str) -> RuntimePlan:
        return self.builder.build(snapshot, sha256, self.store.current)

    def _recovered_spool(self) -> Spool:
        """Read what a predecessor left, and settle what died with it, before anything new is taken."""
        found = recovery.read(self.slot.directory)
        spool = Spool(
            self.slot.directory,
            found.segments,
            self.settings.segment_bytes,
            self.settings.spool_max_bytes,
        )
        spool.on_sync = self._table.sync
        closed = recovery.close_interrupted(
            found, spool.record, self._charge_recovered, time.time_ns() // 1_000_000
        )
        if closed:
            log.warning("requests of a former process were settled", extra={"requests": closed})
        return spool

    def _charge_recovered(self, opened: RequestOpened, billed: int) -> None:
        self.book.charge_recovered(opened.budget_ids, opened.opened_at_ms, billed)

    # -- life ----------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        self.pools.start()
        await self.watcher.start()
        await self.heartbeat.beat()
        loops = {
            "snapshot-watch": self.watcher.run(),
            "snapshot-listen": self.watcher.listen(self._listen_redis),
            "heartbeat": self.heartbeat.run(),
            "lease-sync": self.keeper.run(),
            "ship-usage": self.shipper.run(),
            "findings": self.controller.carry_findings(),
            "housekeeping": self._keep_house(),
        }
        if self.slot.number == 0:
            loops["controller"] = self.controller.run()
            loops["orphans"] = adopt_orphans(self.settings, self._redis)
        self._tasks = [tasks.spawn(loop, name) for name, loop in loops.items()]

    async def stop(self) -> None:
        """End what still runs, give leases back, ship what can be shipped, then close."""
        self.engine.draining = True
        for request in tuple(self.engine.active):
            request.cut()
        await tasks.cancel(*self._tasks)
        await self._last_words()
        self.pools.stop()
        self.metrics.save()
        self.spool.write_deferred()
        self.spool.close()
        self._table.close()
        for client in (self._redis, self._lease_redis, self._listen_redis):
            await client.aclose()
        self.slot.close()

    async def _last_words(self) -> None:
        """As far as Redis answers; whatever does not get out now goes out at the next start."""
        try:
            async with asyncio.timeout(REDIS_TIMEOUT_S):
                for lease in self.book.leases.values():
                    # The slice of a hard budget stays: the next start may find Redis gone.
                    lease.give_back(lease.standby)
                await self.keeper.sync(self.host.unix_ms(), self.host.monotonic_ns())
                await asyncio.to_thread(self.spool.sync)
                while await self.shipper.ship_batch():
                    pass
                await self.heartbeat.farewell()
        except Exception as error:  # noqa: BLE001 - a stop must not fail
            log.info("stopped without a last word to Redis", extra={"reason": str(error)})

    async def _keep_house(self) -> None:
        while True:
            await asyncio.sleep(HOUSEKEEPING_S)
            self.spool.write_deferred()
            self.metrics.save()

    # -- what it says of itself ----------------------------------------------------------------------------------------

    @property
    def version(self) -> int:
        current = self.store.current
        return current.version if current is not None else 0

    def policy_age_s(self) -> float | None:
        """Seconds since the control plane was last heard; None: never by this process."""
        reached_at = self.watcher.state.reached_at
        return round(time.monotonic() - reached_at, 1) if reached_at else None

    def not_ready(self) -> list[str]:
        reasons = []
        if self.store.current is None:
            reasons.append(f"not_ready: {self.watcher.state.reason}")
        if self.spool.full:
            reasons.append("spool_full")
        if self.engine.draining:
            reasons.append("draining")
        return reasons

    def degraded(self) -> list[str]:
        notes = []
        age = self.policy_age_s()
        if age is None or age > STALE_S:
            notes.append("policy_age")
        if not (self.shipper.connected and self.keeper.reachable):
            notes.append("redis_unreachable")
        if self.spool.full:
            notes.append("spool_full")
        return notes

    def set_gauges(self) -> None:
        self.metrics.gauges.update(
            ace_in_flight=len(self.engine.active),
            ace_policy_version=self.version,
            ace_spool_bytes=self.spool.bytes_on_disk,
            ace_spool_backlog_events=self.shipper.backlog_events,
            ace_lease_waits_total=self.keeper.waited,
            ace_findings_dropped_total=self.host.dropped_findings,
            ace_degraded=len(self.degraded()),
        )

    def _report(self, worker_id: str) -> WorkerReport:
        state = self.watcher.state
        return WorkerReport(
            id=worker_id,
            build=self.settings.build,
            pid=int(worker_id.rpartition("-")[2]),
            desired_version=max(state.desired, state.actual),
            actual_version=state.actual,
            state=state.name,
            reason=state.reason,
            ack_ms=state.ack_ms,
            compile_ms=state.compile_ms,
            heartbeat_ms=self.host.unix_ms(),
            requests_total=self.metrics.requests_total,
            in_flight=len(self.engine.active),
            degraded=tuple(self.degraded()),
        )

    def _saw_workers(self, count: int) -> None:
        self.builder.share.workers = max(1, count)

    def _skill_failed(self, slug: str, error: Exception) -> None:
        self.metrics.skill_failures[slug] += 1
        if self.metrics.skill_failures[slug] & 0x3FF == 1:  # the first, then one in 1,024
            log.error("a skill failed", extra={"skill": slug}, exc_info=error)

    def _swapped(self, runtime: RuntimePlan) -> None:
        log.info("snapshot in force", extra={"version": runtime.version})
        self.book.in_force = runtime.budgets
        self.keeper.standby.prepare(runtime.hard_budgets)
        for request in self.engine.active:
            request.rebudget()
        gc.freeze()  # plans live for long: the collector need not walk them
        asyncio.get_running_loop().call_later(RETIRE_S, self._retire)

    def _retire(self) -> None:
        runtime = self.store.current
        if runtime is not None:
            self.pools.retain(self.builder.forget_unused(runtime))


def redis_client(url: str, timeout_s: float | None) -> Redis:
    """No hidden retries: whoever calls knows what to do when Redis is away."""
    return Redis.from_url(
        url,
        socket_timeout=timeout_s,
        socket_connect_timeout=REDIS_TIMEOUT_S,
        retry=Retry(NoBackoff(), 0),
    )
