"""Every way a request can end: answered in the dialect, settled once, one row, nothing left to collect."""

from __future__ import annotations

import asyncio
import gc
import os
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import redis

from gateway.app import Gateway
from gateway.pipeline.context import Call
from gateway.pipeline.relay import Relay
from policies.schema import wire
from policies.schema.credentials import digest
from policies.schema.snapshot import RateLimits
from tests.gateway import rig

pytestmark = [pytest.mark.enable_socket, pytest.mark.integration]
CHAT = "/v1/chat/completions"


class Scene:
    """A gateway before engines, with a ledger behind it."""

    def __init__(self, gateway: Gateway, client: httpx.AsyncClient, ledger: rig.Ledger) -> None:
        self.gateway, self.client, self.ledger = gateway, client, ledger

    async def ask(self, **fields: Any) -> httpx.Response:
        return await self.client.post(CHAT, json=rig.ask(**fields))

    async def at_rest(self, rows: int) -> None:
        """Exactly `rows` rows arrived and this worker holds nothing."""
        await rig.eventually(lambda: len(self.ledger.rows) >= rows)
        await asyncio.sleep(0.05)
        assert len(self.ledger.rows) == rows
        worker = self.gateway.worker
        assert not worker.engine.active
        assert worker.spool.in_flight == 0
        for lease in worker.book.leases.values():
            assert lease.held == 0
            assert lease.used == self.ledger.billed
        for lane in worker.builder._lanes.values():
            assert lane.in_flight == 0


@asynccontextmanager
async def scene(
    home: Path, valkey: redis.Redis, *handlers: rig.Handler, **parts: Any
) -> AsyncIterator[tuple[Scene, list[rig.Engine]]]:
    async with AsyncExitStack() as stack:
        ledger = await stack.enter_async_context(rig.Ledger(os.environ["REDIS_URL"]))
        engines = [await stack.enter_async_context(rig.Engine(one)) for one in handlers]
        ports = parts.pop("ports", None) or tuple(engine.port for engine in engines)
        parts.setdefault("budgets", (rig.budget(1_000_000),))
        rig.publish(valkey, rig.snapshot(ports=ports, **parts))
        gateway, url = await stack.enter_async_context(rig.running(rig.settings(home)))
        client = await stack.enter_async_context(rig.client(url))
        yield Scene(gateway, client, ledger), engines


def saying(response: bytes) -> rig.Handler:
    async def handler(_: Any, writer: asyncio.StreamWriter, __: dict[str, Any]) -> None:
        writer.write(response)

    return handler


def streaming(*events: bytes, end: bool = True, hang: bool = False) -> rig.Handler:
    """Sends `events`; then ends properly, hangs, or closes the connection in mid-stream."""

    async def handler(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter, _: dict[str, Any]
    ) -> None:
        writer.write(rig.STREAM_HEAD + b"".join(rig.chunk(event) for event in events))
        if hang:
            await reader.readexactly(1)
        if end:
            writer.write(b"0\r\n\r\n")
        else:
            writer.close()
            raise ConnectionError

    return handler


@pytest.mark.parametrize(
    ("status", "seen", "code"),
    [
        (500, 502, "upstream_bad_response"),
        (429, 429, "upstream_rate_limited"),
        (401, 502, "upstream_credential_refused"),
        (503, 503, "upstream_unavailable"),
        (504, 504, "upstream_timeout"),
        (302, 502, "upstream_bad_response"),
    ],
)
async def test_an_engines_refusal_is_told_and_costs_nothing(
    status: int, seen: int, code: str, tmp_path: Path, valkey: redis.Redis
) -> None:
    async with scene(tmp_path, valkey, saying(rig.http(status, b"{}"))) as (here, engines):
        answer = await here.ask()
        assert answer.status_code == seen
        assert answer.json()["error"]["code"] == code
        await here.at_rest(1)
        row = here.ledger.rows[0]
    assert row.billed_microusd == 0
    assert row.outcome == ("timeout" if status == 504 else "upstream_error")
    assert len(engines[0].seen) == 1


async def test_a_callers_fault_found_by_the_engine_is_passed_on(
    tmp_path: Path, valkey: redis.Redis
) -> None:
    body = b'{"error":{"message":"context too long","code":"context_length_exceeded"}}'
    async with scene(tmp_path, valkey, saying(rig.http(400, body))) as (here, _):
        answer = await here.ask()
        assert answer.status_code == 400
        assert answer.content == body
        assert answer.headers["x-ace-error-origin"] == "upstream"
        await here.at_rest(1)
        assert here.ledger.rows[0].outcome == "upstream_refused"


async def test_an_endpoint_that_is_down_is_replaced_before_the_first_byte(
    tmp_path: Path, valkey: redis.Redis
) -> None:
    bad = saying(rig.http(503, b"{}"))
    async with scene(tmp_path, valkey, bad, rig.answer_all) as (here, engines):
        for _ in range(8):
            assert (await here.ask()).status_code == 200
        await here.at_rest(8)
        rows = here.ledger.rows
    assert len(engines[0].seen) + len(engines[1].seen) == sum(row.attempt for row in rows)
    assert {row.attempt for row in rows} == {1, 2}
    assert all(row.endpoint_id == "ep_2" for row in rows)


async def test_nobody_listening_is_503_after_one_more_attempt(
    tmp_path: Path, valkey: redis.Redis
) -> None:
    async with scene(tmp_path, valkey, ports=(1, 2, 3)) as (here, _):
        answer = await here.ask()
        assert answer.status_code == 503
        await here.at_rest(1)
        assert here.ledger.rows[0].attempt == 2


async def test_a_stream_cut_short_ends_in_an_error_event_and_is_charged(
    tmp_path: Path, valkey: redis.Redis
) -> None:
    cut = streaming(rig.token("a"), rig.token("b"), rig.token("c"), end=False)
    async with scene(tmp_path, valkey, cut) as (here, _):
        answer = await here.ask(stream=True)
        assert "event: error" in answer.text
        assert "[DONE]" not in answer.text
        await here.at_rest(1)
        row = here.ledger.rows[0]
    assert (row.outcome, row.output_tokens, row.usage_source) == ("upstream_error", 3, "counted")
    assert row.billed_microusd == row.input_tokens + 6


async def test_a_stream_that_fails_before_content_is_a_plain_error(
    tmp_path: Path, valkey: redis.Redis
) -> None:
    fault = b'data: {"error":{"message":"boom"}}\n\n'
    async with scene(tmp_path, valkey, streaming(fault)) as (here, _):
        answer = await here.ask(stream=True)
        assert answer.status_code == 502
        await here.at_rest(1)


async def test_a_client_that_asks_for_usage_gets_it(tmp_path: Path, valkey: redis.Redis) -> None:
    async with scene(tmp_path, valkey, rig.answer_all) as (here, _):
        answer = await here.ask(stream=True, stream_options={"include_usage": True})
        assert '"prompt_tokens":10' in answer.text
        await here.at_rest(1)


async def test_a_client_that_leaves_stops_the_engine_and_pays_for_what_came(
    tmp_path: Path, valkey: redis.Redis
) -> None:
    hanging = streaming(rig.token("a"), rig.token("b"), hang=True)
    async with scene(tmp_path, valkey, hanging) as (here, engines):
        async with here.client.stream("POST", CHAT, json=rig.ask(stream=True)) as answer:
            async for _ in answer.aiter_bytes():
                break
        left = time.monotonic()
        await rig.eventually(lambda: engines[0].gone == 1)
        assert engines[0].gone_at - left < 0.2
        await here.at_rest(1)
        row = here.ledger.rows[0]
    assert (row.outcome, row.status, row.output_tokens) == ("client_gone", 499, 2)
    assert row.billed_microusd == row.input_tokens + 4


async def test_a_budget_refusal_names_budget_and_reset_and_reaches_no_engine(
    tmp_path: Path, valkey: redis.Redis
) -> None:
    budgets = (rig.budget(30),)
    async with scene(tmp_path, valkey, rig.answer_all, budgets=budgets) as (here, engines):
        answer = await here.ask()
        assert answer.status_code == 429
        error = answer.json()["error"]
        assert error["code"] == "budget_exceeded"
        assert error["ace"]["budget"] == "Team budget"
        assert error["ace"]["limit_microusd"] == 30
        assert error["ace"]["resets_at"].endswith("Z")
        assert not engines[0].seen
        await here.at_rest(0)


async def test_parallel_requests_never_overdraw_a_budget(
    tmp_path: Path, valkey: redis.Redis
) -> None:
    limit = 40 * 20
    async with scene(tmp_path, valkey, rig.answer_all, budgets=(rig.budget(limit),)) as (here, _):
        answers = await asyncio.gather(*(here.ask() for _ in range(200)))
        good = sum(answer.status_code == 200 for answer in answers)
        refused = [answer for answer in answers if answer.status_code == 429]
        assert good + len(refused) == 200
        await here.at_rest(good)
        assert here.ledger.billed <= limit
        assert good >= 30, "what fits is admitted within the wait"


async def test_a_soft_budget_flags_and_lets_pass(tmp_path: Path, valkey: redis.Redis) -> None:
    budgets = (rig.budget(1, mode="soft"),)
    async with scene(tmp_path, valkey, rig.answer_all, budgets=budgets) as (here, _):
        answers = [await here.ask()]
        # The worker learns what all have spent with its next exchange with Redis, twice a second.
        while "x-ace-budget" not in answers[-1].headers and len(answers) < 50:
            await asyncio.sleep(0.1)
            answers.append(await here.ask())
        assert {answer.status_code for answer in answers} == {200}
        assert answers[-1].headers["x-ace-budget"] == "soft-limit-exceeded"
        await here.at_rest(len(answers))


async def test_the_fence_keeps_every_attempt_inside(tmp_path: Path, valkey: redis.Redis) -> None:
    async with scene(tmp_path, valkey, rig.answer_all, fence=("us-east-1",)) as (here, engines):
        answer = await here.ask()
        assert answer.status_code == 403
        assert answer.json()["error"]["code"] == "region_not_allowed"
        assert (await here.client.get("/v1/models")).json()["data"] == []
        assert not engines[0].seen


async def test_the_breaker_rests_an_endpoint_and_says_so(
    tmp_path: Path, valkey: redis.Redis
) -> None:
    documents = (rig.breaker(consecutive_failures=3),)
    bad = saying(rig.http(500, b"{}"))
    async with scene(tmp_path, valkey, bad, documents=documents) as (here, engines):
        codes = [(await here.ask()).json()["error"]["code"] for _ in range(5)]
        assert codes[:3] == ["upstream_bad_response"] * 3
        assert codes[3:] == ["circuit_open"] * 2
        assert len(engines[0].seen) == 3
        await here.at_rest(3)


async def test_rates_and_concurrency_refuse_with_advice(
    tmp_path: Path, valkey: redis.Redis
) -> None:
    limits = RateLimits(requests_per_minute=2)
    async with scene(tmp_path, valkey, rig.answer_all, limits=limits) as (here, _):
        assert [(await here.ask()).status_code for _ in range(3)] == [200, 200, 429]
        refused = await here.ask()
        assert refused.json()["error"]["code"] == "rate_limit_exceeded"
        assert int(refused.headers["retry-after"]) >= 1
        await here.at_rest(2)
        use = here.gateway.worker.builder._uses["key_1"]
        assert use.in_flight == 0


async def test_a_revoked_key_stops_within_a_second(tmp_path: Path, valkey: redis.Redis) -> None:
    async with scene(tmp_path, valkey, rig.answer_all) as (here, _):
        assert (await here.ask()).status_code == 200
        revoked = digest(rig.PEPPER, rig.KEY)
        valkey.zadd(wire.REVOCATIONS_KEY, {revoked: time.time() * 1000})
        valkey.publish(wire.REVOCATIONS_CHANNEL, revoked)
        await asyncio.sleep(0.2)
        answer = await here.ask()
        assert answer.status_code == 401
        assert answer.json()["error"]["code"] == "key_revoked"


async def test_bad_requests_change_nothing(tmp_path: Path, valkey: redis.Redis) -> None:
    async with scene(tmp_path, valkey, rig.answer_all) as (here, engines):
        for fields, status in (
            ({"model": "none"}, 404),
            ({"model": ["x"]}, 400),
            ({"max_tokens": -1}, 400),
            ({"messages": []}, 400),
        ):
            answer = await here.client.post(CHAT, json=rig.ask() | fields)
            assert answer.status_code == status, answer.text
        assert not engines[0].seen
        await here.at_rest(0)


async def test_no_request_leaves_a_cycle_behind(tmp_path: Path, valkey: redis.Redis) -> None:
    async with scene(tmp_path, valkey, rig.answer_all) as (here, _):
        await here.ask()
        await here.ask(stream=True)
        gc.collect()
        gc.disable()
        try:
            for _ in range(20):
                await here.ask()
                await here.ask(stream=True)
            await asyncio.sleep(0.05)
            left = [one for one in gc.get_objects() if isinstance(one, Call | Relay)]
        finally:
            gc.enable()
        # The connection keeps the exchange of its last request, and that one the call.
        assert len(left) <= 2, left
        await here.at_rest(42)


async def test_redis_away_serves_what_is_leased_and_ships_later(
    tmp_path: Path, valkey: redis.Redis
) -> None:
    async with scene(tmp_path, valkey, rig.answer_all) as (here, _):
        assert (await here.ask()).status_code == 200
        here.gateway.worker.keeper._lost(ConnectionError("test"))
        assert (await here.ask()).status_code == 200
        await here.at_rest(2)
