"""The way of leases to Redis and back, off the hot path.

A request whose hold fits locally never comes here. One that does not waits in its purse's queue, first come first
served, for at most WAIT_S; a background pass states every changed lease twice a second and gives back what is idle, or
everything free as soon as somebody else is pressed for it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from redis.exceptions import RedisError

from gateway import tasks
from gateway.limits import scripts
from gateway.limits.leases import Lease, LeaseBook, Purse
from gateway.limits.standby import STRIDE, Standby
from gateway.limits.window import NEVER_MS
from gateway.protocols.errors import Refused
from policies.schema import wire

if TYPE_CHECKING:
    from redis.asyncio import Redis

WAIT_S: Final = 2.0
POLL_S: Final = 0.025
SYNC_S: Final = 0.5
IDLE_NS: Final = 5_000_000_000
KEEP_MS: Final = 3 * 86_400_000
"""How long a finished window's state stays in Redis, for whoever still settles into it."""
FORGET_MS: Final = 35 * 86_400_000
SURE_S: Final = 3.0
"""A watermark this old was read before Redis lost its state and was primed again."""
WANT_REQUESTS: Final = 32
BATCH: Final = 100

log: Final = logging.getLogger(__name__)


class Waiter:
    __slots__ = ("deadline", "future", "hold")

    def __init__(
        self, hold: int, future: asyncio.Future[tuple[Lease, ...]], deadline: float
    ) -> None:
        self.hold, self.future, self.deadline = hold, future, deadline


class LeaseKeeper:
    def __init__(
        self, redis: Redis, book: LeaseBook, spool_id: str, last_seq: Callable[[], int]
    ) -> None:
        self._redis, self._book, self._slot, self._last_seq = redis, book, spool_id, last_seq
        self._script = redis.register_script(scripts.LEASE)
        self.standby = Standby(book)
        self._pressed_at = 0
        self._queues: dict[Purse, deque[Waiter]] = {}
        self._watermarks: deque[tuple[float, int]] = deque(maxlen=64)
        self._retry_at = 0.0
        self.reachable = True
        self.waited = 0
        self._greeted = False

    # -- for requests ------------------------------------------------------------------------------------------------

    async def wait(self, purse: Purse, hold: int) -> tuple[Lease, ...]:
        """Leases that carry `hold`, or Refused with the budget's name. Cancel it when the client leaves."""
        loop = asyncio.get_running_loop()
        waiter = Waiter(hold, loop.create_future(), loop.time() + WAIT_S)
        self.waited += 1
        queue = self._queues.get(purse)
        if queue is None:
            queue = self._queues[purse] = deque()
            tasks.spawn(self._serve(purse, queue), "lease-queue")
        queue.append(waiter)
        return await waiter.future

    def top_up(self, purse: Purse, want: int) -> None:
        """Ask ahead for more, so that the next requests do not have to wait."""
        if not purse.refilling and purse not in self._queues and self.reachable:
            purse.refilling = True
            tasks.spawn(self._top_up(purse, want), "lease-top-up")

    async def _top_up(self, purse: Purse, want: int) -> None:
        try:
            await self._ask(purse.current(unix_ms()), 0, want)
        except (RedisError, OSError) as error:
            self._lost(error)
        finally:
            purse.refilling = False

    async def _serve(self, purse: Purse, queue: deque[Waiter]) -> None:
        purse.waiting = True
        try:
            while True:
                self._admit(purse, queue)
                if not queue:
                    return
                await self._ask_for(purse, queue)
                self._admit(purse, queue)
                if queue:
                    await asyncio.sleep(POLL_S)
        finally:
            purse.waiting = False
            del self._queues[purse]
            for waiter in queue:  # only after a fault of ours: nobody may be left waiting for ever
                if not waiter.future.done():
                    waiter.future.set_exception(Refused("internal_error"))

    def _admit(self, purse: Purse, queue: deque[Waiter]) -> None:
        """Pay for waiters in order; refuse those that cannot be paid for any more."""
        now = asyncio.get_running_loop().time()
        purse.current(unix_ms())
        while queue:
            waiter = queue[0]
            if waiter.future.done():
                queue.popleft()
            elif purse.can_pay(waiter.hold):
                queue.popleft()
                waiter.future.set_result(purse.take(waiter.hold, time.monotonic_ns()))
            elif now >= waiter.deadline or not self._hopeful(purse, waiter.hold):
                queue.popleft()
                waiter.future.set_exception(purse.refusal(waiter.hold, reachable=self.reachable))
            else:
                return

    def _hopeful(self, purse: Purse, hold: int) -> bool:
        """Whether waiting can help: no budget is really used up, and Redis can be asked."""
        if not self.reachable:
            return False
        return all(
            not lease.known or lease.spent_by_all + hold <= lease.terms.limit
            for lease in purse.hard
        )

    async def _ask_for(self, purse: Purse, queue: deque[Waiter]) -> None:
        holds = [waiter.hold for waiter in list(queue)[:WANT_REQUESTS]]
        try:
            await self._ask(purse.current(unix_ms()), holds[0], sum(holds))
        except (RedisError, OSError) as error:
            self._lost(error)

    # -- for everything ----------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Speaks up at once, so that a fresh Redis has had its quarantine before the first request comes."""
        wait_s = 0.0
        while True:
            await asyncio.sleep(wait_s)
            wait_s = SYNC_S
            try:
                await self.sync(unix_ms(), time.monotonic_ns())
            except (RedisError, OSError) as error:
                self._lost(error)

    async def sync(self, now_ms: int, now_ns: int) -> None:
        """State what changed, give back what is not needed, forget windows that are over."""
        await self.standby.refresh(now_ms)
        await self._greet()
        due: list[Lease] = []
        for count, lease in enumerate(list(self._book.leases.values()), 1):
            if count % STRIDE == 0:
                await asyncio.sleep(0)
            over = self._is_over(lease, now_ms)
            if over or lease.pressed or now_ns - lease.last_used_ns > IDLE_NS:
                lease.give_back(0 if over or lease.pressed else lease.standby)
            if over and not lease.stale and not lease.held:
                self._book.forget(lease)
            elif lease.stale or lease.pressed or not self.reachable:
                due.append(lease)
        for at in range(0, len(due), BATCH):
            await self._state(due[at : at + BATCH])
        if short := self.standby.short(now_ns):
            await self._state(short)

    async def _greet(self) -> None:
        """Be known to this Redis, and hear which budgets somebody is short of; idle leases hear it nowhere else."""
        if not self._greeted:
            keys = [wire.BUDGET_PRIME_LIST, scripts.RUN_SINCE_KEY]
            await self._script(keys=keys, args=self._header())
            self._greeted = True
        found: Any = await self._redis.zrange(
            scripts.PRESSED_KEY, b"(%d" % self._pressed_at, "+inf", byscore=True, withscores=True
        )
        for key, at_ms in found:
            self._pressed_at = int(at_ms)
            lease = self._book.leases.get(_budget_window(key))
            if lease is not None:
                lease.pressed = True

    async def _state(self, leases: Sequence[Lease]) -> None:
        """One call a lease. Together with what it knows, each asks for what its slice lacks."""
        pipeline = self._redis.pipeline(transaction=False)
        sent = []
        for lease in leases:
            sent.append(self._prepare(lease))
            await self._script(*self._call((lease,), 0, -lease.standby), client=pipeline)
        for lease, op, answer in zip(leases, sent, await pipeline.execute(), strict=True):
            self._apply(lease, op, answer)
        self.reachable = True

    async def _ask(self, leases: tuple[Lease, ...], hold: int, want: int) -> None:
        """One call over all levels; hold and want are what the purse needs beyond what is free."""
        if time.monotonic() < self._retry_at:
            return
        sent = [self._prepare(lease) for lease in leases]
        answer = await self._script(*self._call(leases, hold, want))
        self.reachable = True
        width = scripts.FIELDS_PER_LEVEL
        for n, (lease, op) in enumerate(zip(leases, sent, strict=True)):
            self._apply(lease, op, answer[n * width : (n + 1) * width])

    def _prepare(self, lease: Lease) -> int:
        lease.mark(self._last_seq())
        lease.stale = False
        return lease.next_op()

    def _call(
        self, leases: Sequence[Lease], hold: int, want: int
    ) -> tuple[list[str], list[int | str]]:
        keys = [wire.BUDGET_PRIME_LIST, scripts.RUN_SINCE_KEY]
        args = self._header()
        for lease in leases:
            keys.append(
                wire.BUDGET_KEY.format(
                    budget_id=lease.budget_id, window_start_ms=lease.window.start_ms
                )
            )
            hard = lease.terms.mode == "hard"
            # What is spent and held without a grant (a budget that became hard, a request that joined it under way) is
            # stated as granted, so that nobody else gets that money.
            stated = max(lease.granted, lease.used + (lease.held if hard else 0))
            free = stated - lease.used - lease.held
            least = max(0, hold - free) if hard else 0
            wanted = _wanted(want, free) if hard else 0
            end_ms = lease.window.end_ms
            expiry = end_ms + KEEP_MS if 0 < end_ms < NEVER_MS else 0
            args += (lease.op, stated, lease.used, lease.held)
            args += (lease.ledgered, lease.terms.limit, least, wanted, expiry)
        return keys, args

    def _apply(self, lease: Lease, op: int, answer: Sequence[bytes | int]) -> None:
        granted, spent, held, last_op, flags, in_base = (int(value) for value in answer)
        lease.spent_by_all, lease.held_by_all = spent, held
        lease.pressed = bool(flags & scripts.PRESSED)
        lost = bool(flags & scripts.LOST)
        lease.known = bool(flags & scripts.KNOWN and flags & scripts.SETTLED) and not lost
        if lost:
            lease.in_ledger(self._sure_watermark())
            lease.stale = True
        elif lease.known and in_base:
            lease.in_ledger(in_base + 1)
        if lease.op != op:
            return  # a later call has already stated what this slot knows, without this grant
        if flags & scripts.LATE:
            lease.adopt(granted, last_op)
        elif granted != lease.granted:
            lease.grant(granted)

    def _header(self) -> list[int | str]:
        return [self._slot, scripts.QUARANTINE_MS]

    def saw_watermark(self, watermark: int) -> None:
        self._watermarks.append((time.monotonic(), watermark))

    def _sure_watermark(self) -> int:
        limit = time.monotonic() - SURE_S
        return max((mark for at, mark in self._watermarks if at <= limit), default=0)

    def _lost(self, error: Exception) -> None:
        """Refuse at once what does not fit, for a moment, rather than let every request wait for a timeout."""
        if self.reachable:
            log.warning(
                "budgets out of reach; spending what is leased", extra={"reason": str(error)}
            )
        self.reachable = self._greeted = False
        self._retry_at = time.monotonic() + SYNC_S / 2
        for lease in self._book.leases.values():
            lease.stale = True

    @staticmethod
    def _is_over(lease: Lease, now_ms: int) -> bool:
        end_ms = lease.window.end_ms
        if end_ms:
            return now_ms >= end_ms
        # Restored and not yet met by a key: its zone and length are unknown, but no window lasts longer.
        return 0 < lease.window.start_ms < now_ms - FORGET_MS


def _wanted(want: int, free: int) -> int:
    """Negative: a slice to stand by, which the script grants only out of plenty."""
    return max(0, want - free) if want >= 0 else min(0, want + free)


def _budget_window(key: bytes | str) -> tuple[str, int]:
    text = key.decode() if isinstance(key, bytes) else key
    budget_id, _, start_ms = text.removeprefix(scripts.BUDGET_PREFIX).rpartition(":")
    return budget_id, int(start_ms)


def unix_ms() -> int:
    return time.time_ns() // 1_000_000
