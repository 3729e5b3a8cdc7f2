"""Slices of hard budgets that idle workers hold, over the real script."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import redis
import redis.asyncio

from gateway.limits import scripts
from gateway.limits.keeper import LeaseKeeper
from gateway.limits.leases import BudgetTerms, Lease, LeaseBook, Purse
from gateway.limits.standby import PARTS
from gateway.limits.table import LeaseTable
from gateway.protocols.errors import Refused

pytestmark = [pytest.mark.integration, pytest.mark.enable_socket]

LIMIT = 6400
SLICE = LIMIT // PARTS
HARD = BudgetTerms("bud_1", "Team", LIMIT, "total", "UTC", "hard")
LONG_NS = 60_000_000_000
"""Longer than a lease stays idle."""


class Worker:
    def __init__(self, directory: Path, name: str, client: redis.asyncio.Redis) -> None:
        self.table = LeaseTable(directory / f"{name}.bin")
        self.book = LeaseBook(self.table)
        self.keeper = LeaseKeeper(client, self.book, name, lambda: 0)
        self.use(HARD)

    def use(self, terms: BudgetTerms) -> None:
        """A snapshot with this one budget."""
        self.keeper.standby.prepare((terms,) if terms.mode == "hard" else ())
        self.purse = Purse(self.book, (terms,))

    @property
    def lease(self) -> Lease:
        return self.book.leases["bud_1", 0]

    async def settle_in(self, now_ns: int = 1) -> None:
        await self.keeper.sync(1, now_ns)
        await self.keeper.sync(1, now_ns)


@pytest.fixture
async def client(valkey: redis.Redis) -> AsyncIterator[redis.asyncio.Redis]:
    prime(valkey)
    async with redis.asyncio.Redis.from_url(os.environ["REDIS_URL"]) as client:
        yield client


def prime(valkey: redis.Redis, spent: int = 0) -> None:
    """The ledger has answered."""
    run = valkey.hget(scripts.RUN_SINCE_KEY, "run")
    assert isinstance(run, bytes)
    valkey.hset("ace:budget:bud_1:0", mapping={"base_microusd": spent, "run": run})


async def test_an_idle_worker_keeps_a_slice_and_no_more(
    tmp_path: Path, client: redis.asyncio.Redis
) -> None:
    worker = Worker(tmp_path, "a", client)
    await worker.settle_in()
    assert worker.lease.free == SLICE
    await worker.settle_in(LONG_NS)
    assert worker.lease.free == SLICE


async def test_a_restarted_worker_spends_its_slice_without_redis(
    tmp_path: Path, client: redis.asyncio.Redis
) -> None:
    worker = Worker(tmp_path, "a", client)
    await worker.settle_in()
    worker.table.close()
    again = Worker(tmp_path, "a", client)
    again.purse.current(1)
    assert again.purse.can_pay(SLICE)
    assert not again.purse.can_pay(SLICE + 1)


async def test_idle_slices_go_to_whoever_is_short(
    tmp_path: Path, client: redis.asyncio.Redis
) -> None:
    idle, busy = Worker(tmp_path, "a", client), Worker(tmp_path, "b", client)
    await idle.settle_in()
    await busy.keeper._ask(busy.purse.current(1), LIMIT, LIMIT)
    assert not busy.purse.can_pay(LIMIT)
    await idle.keeper.sync(1, 1)
    assert idle.lease.free == 0
    await busy.keeper._ask(busy.purse.current(1), LIMIT, LIMIT)
    assert busy.purse.can_pay(LIMIT)
    await idle.keeper.sync(1, LONG_NS)
    assert idle.lease.free == 0, "what another needs is not taken to stand by"


async def test_no_slice_is_taken_from_what_is_used_up(
    tmp_path: Path, client: redis.asyncio.Redis, valkey: redis.Redis
) -> None:
    valkey.hset("ace:budget:bud_1:0", "base_microusd", LIMIT - PARTS)
    worker = Worker(tmp_path, "a", client)
    await worker.settle_in()
    assert worker.lease.free <= 1


@pytest.mark.parametrize("mode", ["soft", "hard"])
async def test_a_budget_that_left_the_snapshot_or_is_soft_has_no_slice(
    tmp_path: Path, client: redis.asyncio.Redis, mode: str
) -> None:
    worker = Worker(tmp_path, "a", client)
    await worker.settle_in()
    if mode == "soft":
        worker.use(HARD.__class__("bud_1", "Team", LIMIT, "total", "UTC", "soft"))
    else:
        worker.keeper.standby.prepare(())
    await worker.settle_in(LONG_NS)
    assert worker.lease.free == 0


async def test_a_lowered_limit_binds_every_worker_at_once(
    tmp_path: Path, client: redis.asyncio.Redis
) -> None:
    workers = [Worker(tmp_path, name, client) for name in "ab"]
    for worker in workers:
        await worker.keeper._ask(worker.purse.current(1), 1000, 3000)
        assert worker.purse.can_pay(3000)
    lower = BudgetTerms("bud_1", "Team", 500, "total", "UTC", "hard")
    spent = 0
    for worker in workers:
        worker.use(lower)
        for _ in range(20):
            leases = worker.purse.current(1)
            if not worker.purse.can_pay(100):
                await worker.keeper._ask(leases, 100, 100)
            if worker.purse.can_pay(100):
                for lease in worker.purse.take(100, 1):
                    lease.settle(100, 100)
                spent += 100
        await worker.keeper.sync(1, 1)
    assert spent <= 500


async def test_a_slice_that_redis_forgot_while_its_worker_was_away_is_not_spent_twice(
    tmp_path: Path, client: redis.asyncio.Redis, valkey: redis.Redis
) -> None:
    away = Worker(tmp_path, "a", client)
    await away.settle_in()
    away.table.close()
    valkey.delete("ace:budget:bud_1:0", "ace:budget:known:bud_1:0")
    prime(valkey)
    other = Worker(tmp_path, "b", client)
    await other.keeper._ask(other.purse.current(1), LIMIT, LIMIT)
    assert other.purse.can_pay(LIMIT)
    back = Worker(tmp_path, "a", client)
    await back.keeper.sync(1, 1)
    assert back.lease.free == 0


async def test_a_budget_with_room_is_not_called_used_up_while_redis_is_away(
    tmp_path: Path, client: redis.asyncio.Redis
) -> None:
    worker = Worker(tmp_path, "a", client)
    await worker.settle_in()
    worker.keeper._lost(OSError("gone"))
    with pytest.raises(Refused) as refused:
        await worker.keeper.wait(worker.purse, SLICE * 2)
    assert refused.value.code == "spend_unrecordable"
