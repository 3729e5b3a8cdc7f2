"""Budgets that come, go and change while requests are under way: nothing is lost, charged twice or left held."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import redis

from gateway.limits.leases import Lease
from policies.schema import wire
from policies.schema.snapshot import Budget
from tests.gateway import rig
from tests.gateway.pipeline.test_exits import Scene, scene

pytestmark = [pytest.mark.enable_socket, pytest.mark.integration]
PLENTY = 1_000_000
BILL = 10 + 2 * 5
"""Of every answer of this engine."""


class Play:
    """A gateway before one engine that answers when it is told to."""

    def __init__(self, here: Scene, engine: rig.Engine, valkey: redis.Redis) -> None:
        self.here, self.engine, self.valkey = here, engine, valkey
        self.go = asyncio.Event()
        self.version = 1

    async def answer(
        self, _: asyncio.StreamReader, writer: asyncio.StreamWriter, __: dict[str, Any]
    ) -> None:
        await self.go.wait()
        writer.write(rig.unary_answer(10, 5))

    async def begin(self, count: int = 1) -> list[asyncio.Task[httpx.Response]]:
        """Requests that the engine has and does not answer yet."""
        seen = len(self.engine.seen)
        asked = [asyncio.create_task(self.here.ask()) for _ in range(count)]
        await rig.eventually(lambda: len(self.engine.seen) == seen + count)
        return asked

    async def publish(self, *budgets: Budget) -> None:
        self.version += 1
        made = rig.snapshot(self.version, ports=(self.engine.port,), budgets=budgets)
        rig.publish(self.valkey, made)
        await rig.eventually(lambda: self.here.gateway.worker.version == self.version)

    def hold(self) -> int:
        """Of a request under way."""
        request: Any = next(iter(self.here.gateway.worker.engine.active))
        held: int = request._call.hold
        return held

    def lease(self, budget_id: str, *, latest: bool = True) -> Lease:
        leases = self.here.gateway.worker.book.leases
        found = [lease for (held_id, _), lease in leases.items() if held_id == budget_id]
        return (max if latest else min)(found, key=lambda lease: lease.window.start_ms)

    async def settled(self, rows: int, **used: int) -> None:
        """`rows` rows, nothing held or owed anywhere, and each budget as much used as said, also in Redis."""
        ledger, worker = self.here.ledger, self.here.gateway.worker
        await rig.eventually(lambda: len(ledger.rows) == rows and not worker.engine.active)
        leases = worker.book.leases.values()
        assert not any(lease.held for lease in leases)
        hard = [lease for lease in leases if lease.terms.mode == "hard"]
        await rig.eventually(lambda: all(lease.free >= 0 for lease in hard))
        for budget_id, amount in used.items():
            assert self.lease(budget_id).used == amount
            await rig.eventually(lambda: self.in_redis(budget_id, "u") == amount)  # noqa: B023
            assert self.in_redis(budget_id, "h") == 0
            assert self.in_redis(budget_id, "g") >= amount

    def in_redis(self, budget_id: str, field: str) -> int:
        lease = self.lease(budget_id)
        key = wire.BUDGET_KEY.format(budget_id=budget_id, window_start_ms=lease.window.start_ms)
        slot = self.here.gateway.worker.slot.spool_id
        value: Any = self.valkey.hget(key, f"{field}:{slot}")
        return int(value)


@asynccontextmanager
async def play(home: Path, valkey: redis.Redis, *budgets: Budget) -> AsyncIterator[Play]:
    stage: list[Play] = []

    async def answer(*exchange: Any) -> None:
        await stage[0].answer(*exchange)

    async with scene(home, valkey, answer, budgets=budgets) as (here, engines):
        stage.append(Play(here, engines[0], valkey))
        yield stage[0]


def code(answer: httpx.Response) -> str:
    found: str = answer.json()["error"]["code"]
    return found


@pytest.mark.parametrize("before", [(), (rig.budget(PLENTY, id="bud_old"),)])
async def test_a_budget_added_under_way_counts_what_is_under_way(
    before: tuple[Budget, ...], tmp_path: Path, valkey: redis.Redis
) -> None:
    async with play(tmp_path, valkey, *before) as here:
        asked = await here.begin(3)
        hold = here.hold()
        await here.publish(*before, rig.budget(3 * hold, id="bud_new"))
        assert here.lease("bud_new").held == 3 * hold
        refused = await here.here.ask()
        assert (refused.status_code, code(refused)) == (429, "budget_exceeded")
        here.go.set()
        assert {answer.status_code for answer in await asyncio.gather(*asked)} == {200}
        await here.settled(3, bud_new=3 * BILL, **{each.id: 3 * BILL for each in before})
        assert (await here.here.ask()).status_code == 200
        await here.settled(4, bud_new=4 * BILL)


async def test_a_limit_lowered_under_way_holds_from_then_on(
    tmp_path: Path, valkey: redis.Redis
) -> None:
    async with play(tmp_path, valkey, rig.budget(PLENTY)) as here:
        asked = await here.begin(2)
        await here.publish(rig.budget(1))
        refused = await here.here.ask()
        assert (refused.status_code, code(refused)) == (429, "budget_exceeded")
        assert refused.json()["error"]["ace"]["limit_microusd"] == 1
        here.go.set()
        assert {answer.status_code for answer in await asyncio.gather(*asked)} == {200}
        await here.settled(2, bud_1=2 * BILL)
        assert code(await here.here.ask()) == "budget_exceeded"
        await rig.eventually(lambda: here.in_redis("bud_1", "g") == 2 * BILL)


async def test_a_limit_raised_lets_the_next_request_pass(
    tmp_path: Path, valkey: redis.Redis
) -> None:
    async with play(tmp_path, valkey, rig.budget(1)) as here:
        here.go.set()
        assert code(await here.here.ask()) == "budget_exceeded"
        await here.publish(rig.budget(PLENTY))
        assert (await here.here.ask()).status_code == 200
        await here.settled(1, bud_1=BILL)


@pytest.mark.parametrize("window", ["day", "week", "total"])
async def test_a_window_changed_under_way_counts_in_the_old_and_the_new_one(
    window: str, tmp_path: Path, valkey: redis.Redis
) -> None:
    async with play(tmp_path, valkey, rig.budget(PLENTY)) as here:
        asked = await here.begin(2)
        hold = here.hold()
        await here.publish(rig.budget(2 * hold, window=window))
        assert code(await here.here.ask()) == "budget_exceeded"
        here.go.set()
        assert {answer.status_code for answer in await asyncio.gather(*asked)} == {200}
        await here.settled(2)
        assert {lease.used for lease in here.here.gateway.worker.book.leases.values()} == {2 * BILL}
        assert (await here.here.ask()).status_code == 200


async def test_a_budget_removed_under_way_is_settled_and_binds_no_more(
    tmp_path: Path, valkey: redis.Redis
) -> None:
    async with play(tmp_path, valkey, rig.budget(PLENTY)) as here:
        asked = await here.begin(2)
        await here.publish()
        here.go.set()
        assert {answer.status_code for answer in await asyncio.gather(*asked)} == {200}
        assert (await here.here.ask()).status_code == 200
        await here.settled(3, bud_1=2 * BILL)


async def test_a_soft_budget_that_becomes_hard_counts_each_spend_once(
    tmp_path: Path, valkey: redis.Redis
) -> None:
    async with play(tmp_path, valkey, rig.budget(PLENTY, mode="soft")) as here:
        asked = await here.begin(2)
        hold = here.hold()
        await here.publish(rig.budget(3 * hold))
        asked += await here.begin()
        assert code(await here.here.ask()) == "budget_exceeded"
        here.go.set()
        assert {answer.status_code for answer in await asyncio.gather(*asked)} == {200}
        await here.settled(3, bud_1=3 * BILL)


async def test_a_request_that_waited_for_money_counts_in_a_budget_added_meanwhile(
    tmp_path: Path, valkey: redis.Redis
) -> None:
    async with play(tmp_path, valkey, rig.budget(PLENTY)) as here:
        asked = await here.begin()
        hold = here.hold()
        await here.publish(rig.budget(2 * hold - 1))
        keeper = here.here.gateway.worker.keeper
        waits = keeper.waited
        asked.append(asyncio.create_task(here.here.ask()))
        await rig.eventually(lambda: keeper.waited == waits + 1)
        await here.publish(rig.budget(2 * hold - 1), rig.budget(PLENTY, id="bud_new"))
        here.go.set()
        assert {answer.status_code for answer in await asyncio.gather(*asked)} == {200}
        await here.settled(2, bud_1=2 * BILL, bud_new=2 * BILL)


async def test_a_request_pinned_to_an_old_snapshot_does_not_bring_its_limit_back(
    tmp_path: Path, valkey: redis.Redis
) -> None:
    async with play(tmp_path, valkey, rig.budget(PLENTY)) as here:
        here.go.set()
        runtime = here.here.gateway.worker.store.current
        assert runtime is not None
        (old,) = runtime.purses.values()
        await here.publish(rig.budget(1))
        old.valid_until_ms = 0
        old.current(here.here.gateway.worker.host.unix_ms())
        assert here.lease("bud_1").terms.limit == 1
        assert code(await here.here.ask()) == "budget_exceeded"
