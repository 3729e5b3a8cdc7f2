"""What a request is billed when the engine says nothing, too much, or does not stop."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import redis

from tests.gateway import rig
from tests.gateway.pipeline.test_exits import CHAT, saying, scene, streaming

pytestmark = [pytest.mark.enable_socket, pytest.mark.integration]


async def test_an_answer_without_usage_costs_the_hold(tmp_path: Path, valkey: redis.Redis) -> None:
    body = b'{"choices":[{"index":0,"message":{"role":"assistant","content":"x"}}]}'
    async with scene(tmp_path, valkey, saying(rig.http(200, body))) as (here, _):
        answer = await here.ask()
        assert answer.status_code == 200
        await here.at_rest(1)
        row = here.ledger.rows[0]
    assert row.billed_microusd == row.hold_microusd > 0
    assert row.usage_source == "estimated"


@pytest.mark.parametrize("mode", ["hard", "soft"])
async def test_an_engine_that_reports_more_than_it_could_use_overdraws_no_hard_budget(
    tmp_path: Path, valkey: redis.Redis, mode: str
) -> None:
    """A lying engine, or a bound that is wrong: the row keeps what was reported either way."""
    limit = 1_000
    greedy = saying(rig.unary_answer(900_000, 5))
    budgets = (rig.budget(limit, mode=mode),)
    async with scene(tmp_path, valkey, greedy, budgets=budgets) as (here, _):
        answer = await here.ask()
        assert answer.status_code == 200
        await here.at_rest(1)
        row = here.ledger.rows[0]
        assert (row.input_tokens, row.output_tokens, row.usage_source) == (900_000, 5, "engine")
        assert int(answer.headers["x-ace-cost-micros"]) == row.billed_microusd
        if mode == "hard":
            assert row.hold_microusd <= row.billed_microusd <= limit
            spent = here.gateway.worker.book.leases.values()
            assert all(lease.used == row.billed_microusd and lease.free >= 0 for lease in spent)
        else:
            assert row.billed_microusd == 900_000 + 5 * 2
        assert (
            'ace_usage_beyond_hold_total{pool="pool_1"} 1'
            in (await here.client.get("/metrics")).text
        )


async def test_a_budget_that_has_it_pays_all_that_an_engine_reports(
    tmp_path: Path, valkey: redis.Redis
) -> None:
    async with scene(tmp_path, valkey, saying(rig.unary_answer(2_000, 5))) as (here, _):
        await here.ask()
        await here.at_rest(1)
        row = here.ledger.rows[0]
    assert row.hold_microusd < row.billed_microusd == 2_000 + 5 * 2


async def test_parallel_reports_beyond_the_hold_overdraw_no_hard_budget(
    tmp_path: Path, valkey: redis.Redis
) -> None:
    limit, greedy = 5_000, saying(rig.unary_answer(3_000, 5))
    async with scene(tmp_path, valkey, greedy, budgets=(rig.budget(limit),)) as (here, _):
        answers = await asyncio.gather(*(here.ask() for _ in range(60)))
        good = sum(answer.status_code == 200 for answer in answers)
        assert 0 < good < 60
        await here.at_rest(good)
        assert here.ledger.billed <= limit


@pytest.mark.parametrize("mode", ["hard", "soft"])
async def test_an_engine_that_ignores_its_limit_is_stopped_before_a_hard_budget_is_overdrawn(
    tmp_path: Path, valkey: redis.Redis, mode: str
) -> None:
    endless = streaming(*(rig.token(f"t{n}") for n in range(2_000)), hang=True)
    budgets = (rig.budget(1_000, mode=mode),)
    async with scene(tmp_path, valkey, endless, budgets=budgets) as (here, engines):
        body = rig.ask(stream=True)
        async with here.client.stream("POST", CHAT, json=body) as answer:
            text = ""
            async for piece in answer.aiter_text():
                text += piece
                if mode == "soft" and '"t1999"' in text:
                    break
        await rig.eventually(lambda: engines[0].gone == 1)
        await here.at_rest(1)
        row = here.ledger.rows[0]
    assert "[DONE]" not in text
    if mode == "hard":
        assert "budget_exceeded" in text
        assert (row.outcome, row.usage_source) == ("budget_cut", "counted")
        assert row.billed_microusd <= 1_000
    else:
        assert (row.outcome, row.output_tokens) == ("client_gone", 2_000)
