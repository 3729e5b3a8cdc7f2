"""A hard budget holds against a crowd."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tests.fakes.engine import EngineOptions, FakeEngineProcess, Timing
from tests.support.load import Answer, Connection, chat_request
from tests.support.stack import Stack

pytestmark = [pytest.mark.integration, pytest.mark.enable_socket, pytest.mark.timeout(180)]

PARALLEL = 200
AFFORDABLE = 40
TEXT = "The same question for everybody."


async def test_two_hundred_at_once_never_spend_more_than_the_budget(tmp_path: Path) -> None:
    options = EngineOptions(models=("m",), timing=Timing(ttft_floor_ms=50), answer_tokens=(16, 16))
    with (
        FakeEngineProcess(options, tmp_path / "truth.jsonl") as fleet,
        Stack(workers=2) as stack,
    ):
        tenant = stack.api.make_tenant()
        stack.api.make_pool("m", fleet.urls)
        price = await _price_of_one(stack, stack.api.make_key(tenant).key)
        limit = price * AFFORDABLE
        budget = {"limit_microusd": limit, "window": "day", "mode": "hard"}
        key = stack.api.make_key(tenant, name="crowd", budgets=[budget])
        stack.settle()
        port = stack.settings.gateway_port
        request = chat_request(key.key, "m", TEXT, max_tokens=16)
        answers = await asyncio.gather(
            *(_ask(Connection(port, n), request) for n in range(PARALLEL))
        )
        good = [answer for answer in answers if answer.ok]
        rows = [row for row in stack.wait_ledger(1 + len(good)) if row["key_id"] == key.id]
    spent = sum(row["billed_microusd"] for row in rows)
    print(f"{len(good)} answered, {spent} of {limit} micro-dollars spent")
    assert len(rows) == len(good)
    assert 0 < spent <= limit
    # What one request may cost at worst is held for it, so the last of the budget may be too small for one more.
    assert len(good) >= AFFORDABLE // 2
    _assert_refusals_explain(answers, limit)


async def _price_of_one(stack: Stack, key: str) -> int:
    stack.settle()
    request = chat_request(key, "m", TEXT, max_tokens=16)
    answer = await _ask(Connection(stack.settings.gateway_port), request)
    assert answer.ok, answer.body
    return int(stack.wait_ledger(1)[0]["billed_microusd"])


async def _ask(connection: Connection, request: bytes) -> Answer:
    try:
        return await connection.ask(request)
    finally:
        connection.close()


def _assert_refusals_explain(answers: list[Answer], limit: int) -> None:
    refused = [answer for answer in answers if not answer.ok]
    assert {answer.status for answer in refused} == {429}
    for answer in refused:
        error = json.loads(answer.body)["error"]
        assert error["code"] == "budget_exceeded"
        assert answer.header("x-should-retry") == "false"
        details = error["ace"]
        assert details["limit_microusd"] == limit
        assert details["budget"]
        assert details["resets_at"].startswith("20")
