"""Whatever breaks, in whatever order: the money is right, every request ends, and all comes back by itself."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.fakes.engine import EngineOptions, FakeEngineProcess, Timing
from tests.integration.chaos import Chaos
from tests.support.api import IssuedKey
from tests.support.load import Connection, chat_request
from tests.support.stack import Stack
from tests.support.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.enable_socket, pytest.mark.timeout(900)]

TIMING = Timing(prefill_tokens_per_s=8000, decode_tokens_per_s=300, ttft_floor_ms=5)
SMOKE_S = 20.0
QUIET_S = 30.0
"""Until every spool is in the ledger, after the last fault."""
PLENTY = 10**9


async def test_money_is_right_after_half_a_minute_of_chaos(tmp_path: Path) -> None:
    await _survive(tmp_path, SMOKE_S, callers=8)


@pytest.mark.chaos
async def test_money_is_right_after_minutes_of_chaos(tmp_path: Path) -> None:
    await _survive(tmp_path, float(os.environ.get("ACE_CHAOS_S", "300")), callers=24)


async def _survive(tmp_path: Path, seconds: float, callers: int) -> None:
    seed = int(os.environ.get("ACE_CHAOS_SEED", random.randrange(2**32)))
    print(f"seed {seed}")
    options = EngineOptions(models=("m",), timing=TIMING, answer_tokens=(2, 30))
    with (
        FakeEngineProcess(options, tmp_path / "truth.jsonl", count=3) as fleet,
        Stack(workers=2, durable=True) as stack,
    ):
        limits = _Limits(stack, fleet.urls)
        stack.settle()
        chaos = Chaos(stack, fleet, [key.key for key in limits.keys], random.Random(seed))
        await chaos.run(seconds, callers)
        print(f"{dict(chaos.told.statuses)}\n{dict(Counter(chaos.done))}")
        accepted = {r.request_id for r in fleet.records() if r.kind == "accepted"} - {""}
        until(
            lambda: accepted <= {str(row["request_id"]) for row in stack.ledger()},
            within_s=QUIET_S,
            what="every accepted request stands in the ledger",
            every_s=0.5,
        )
        rows = stack.ledger()
        assert len(rows) == len({row["request_id"] for row in rows}), "a request is billed twice"
        limits.check(rows)
        assert not chaos.told.unexplained
        assert not chaos.told.slow
        assert not chaos.told.statuses["no answer"]
        await _all_is_well_again(stack, limits.rich.key)
        assert "Traceback" not in stack.log("gateway")


class _Limits:
    """One key with room for everything, two under hard budgets that run out; both levels."""

    def __init__(self, stack: Stack, urls: list[str]) -> None:
        tenant = stack.api.make_tenant(name="Small")
        rich = stack.api.make_tenant(name="Rich")
        stack.api.make_pool("m", urls, max_output_tokens=64)
        stack.api.call("POST", "/budgets", _budget("tenant", tenant, 60_000, "month"))
        self.tenant = tenant
        small = [
            _budget_of_key(limit, window) for limit, window in ((20_000, "day"), (50_000, "total"))
        ]
        self.poor = [
            stack.api.make_key(tenant, name=f"k{n}", budgets=[budget])
            for n, budget in enumerate(small)
        ]
        self.rich = stack.api.make_key(rich, name="rich", budgets=[_budget_of_key(PLENTY, "week")])
        self.keys: list[IssuedKey] = [*self.poor, self.rich]

    def check(self, rows: list[dict[str, object]]) -> None:
        spent: Counter[str] = Counter()
        for row in rows:
            spent[str(row["key_id"])] += int(str(row["billed_microusd"]))
            spent[str(row["tenant_id"])] += int(str(row["billed_microusd"]))
        print(f"spent {[spent[key.id] for key in self.keys]}, tenant {spent[self.tenant]} of 60000")
        assert spent[self.poor[0].id] <= 20_000
        assert spent[self.poor[1].id] <= 50_000
        assert spent[self.tenant] <= 60_000
        assert 0 < spent[self.rich.id] <= PLENTY


def _budget_of_key(limit: int, window: str) -> dict[str, object]:
    return {"limit_microusd": limit, "window": window, "mode": "hard"}


def _budget(scope: str, subject: str, limit: int, window: str) -> dict[str, object]:
    return {"scope": scope, "subject": subject, "name": scope, **_budget_of_key(limit, window)}


async def _all_is_well_again(stack: Stack, key: str) -> None:
    """A request that fits is served on every worker's connection soon after all is quiet."""
    deadline = time.monotonic() + 5
    while True:
        answers = []
        for number in range(8):
            connection = Connection(stack.settings.gateway_port, number)
            answers.append(await connection.ask(chat_request(key, "m", "Well?", max_tokens=4)))
            connection.close()
        if all(answer.ok for answer in answers):
            return
        assert time.monotonic() < deadline, [answer.body[:200] for answer in answers]
        await asyncio.sleep(0.2)
