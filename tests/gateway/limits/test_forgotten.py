"""Redis forgets; the ledger answers; nothing is counted twice and nothing is forgotten."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import redis
import redis.asyncio

from gateway.limits import scripts
from gateway.limits.keeper import LeaseKeeper
from gateway.limits.leases import BudgetTerms, LeaseBook, Purse
from gateway.limits.table import LeaseTable

pytestmark = [pytest.mark.integration, pytest.mark.enable_socket]

LIMIT = 1000
TERMS = BudgetTerms("bud_1", "Team", LIMIT, "total", "UTC", "hard")
STATE = "ace:budget:bud_1:0"


def prime(valkey: redis.Redis, spent: int, **marks: int) -> None:
    """As ingest does: what the ledger has, and up to where it has each spool."""
    run = valkey.hget(scripts.RUN_SINCE_KEY, "run")
    assert isinstance(run, bytes)
    valkey.hset(STATE, mapping={"base_microusd": spent, "run": run})
    for spool_id, mark in marks.items():
        valkey.hset(STATE, f"m:{spool_id}", mark)


@pytest.mark.parametrize(("in_ledger", "base"), [(2, 600), (1, 300), (0, 0)])
async def test_spend_is_counted_once_however_much_of_it_the_ledger_had(
    tmp_path: Path, valkey: redis.Redis, in_ledger: int, base: int
) -> None:
    """Two requests of 300 stand in the spool at 1 and 2; the ledger had `in_ledger` of them at the loss."""
    prime(valkey, 0)
    seq = 0
    async with redis.asyncio.Redis.from_url(os.environ["REDIS_URL"]) as client:
        table = LeaseTable(tmp_path / "leases.bin")
        book = LeaseBook(table)
        keeper = LeaseKeeper(client, book, "a", lambda: seq)
        purse = Purse(book, (TERMS,))
        for number in (1, 2):
            await keeper._ask(purse.current(1), 300, 300)
            for lease in purse.take(300, 1):
                lease.settle(300, 300)
            seq = number
            await keeper.sync(1, 1)
        lease = purse.leases[0]
        lease.give_back()
        valkey.hdel(STATE, *(name for name in valkey.hkeys(STATE)))
        await keeper._ask(purse.current(1), 0, 0)
        valkey.hdel(STATE, "born_ms")
        prime(valkey, base, a=in_ledger)
        for _ in range(3):
            lease.stale = True
            await keeper.sync(1, 1)
        assert lease.spent_by_all == 600
        await keeper._ask(purse.current(1), 400, 400)
        assert purse.can_pay(400), "what was not spent is there"
        assert not purse.can_pay(401)
        table.close()
