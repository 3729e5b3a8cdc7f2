"""What must stop at once: a revoked key, and the engine's work for a client that left."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from tests.fakes.engine import EngineOptions, FakeEngineProcess, Timing, outcomes
from tests.support.load import Load, chat_request
from tests.support.stack import Stack
from tests.support.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.enable_socket, pytest.mark.timeout(120)]


async def test_a_revoked_key_is_dead_on_every_worker_within_a_second(tmp_path: Path) -> None:
    with (
        FakeEngineProcess(EngineOptions(models=("m",)), tmp_path / "truth.jsonl") as fleet,
        Stack(workers=3) as stack,
    ):
        tenant = stack.api.make_tenant()
        stack.api.make_pool("m", fleet.urls)
        key, other = stack.api.make_key(tenant), stack.api.make_key(tenant, name="other")
        stack.settle()
        revoked_at = 0.0

        async def revoke() -> None:
            nonlocal revoked_at
            await asyncio.sleep(2)
            await asyncio.to_thread(stack.api.revoke_key, key.id)
            revoked_at = time.time()

        def request(number: int) -> bytes:
            return chat_request((key, other)[number % 2].key, "m", f"request {number}")

        # One connection a request, so that the kernel spreads them over the workers.
        load = Load(stack.settings.gateway_port, request, per_s=100, connections=64)
        answers = await load.run(4, beside=revoke())
        late = {a.header("x-request-id") for a in answers if a.ok and a.began > revoked_at + 1}
        stack.wait_ledger(sum(1 for answer in answers if answer.ok))
        billed = {row["request_id"] for row in stack.ledger() if row["key_id"] == key.id}
    assert revoked_at
    assert billed
    assert late, "the other key went on"
    assert not late & billed
    refused = [answer for answer in answers if not answer.ok]
    assert {answer.status for answer in refused} == {401}
    assert len(refused) >= 50, "requests of the revoked key went on being answered"


async def test_a_client_that_leaves_stops_the_engine_and_pays_for_what_was_made(
    tmp_path: Path,
) -> None:
    options = EngineOptions(
        models=("m",), timing=Timing(decode_tokens_per_s=50), answer_tokens=(400, 400)
    )
    with (
        FakeEngineProcess(options, tmp_path / "truth.jsonl") as fleet,
        Stack(workers=1) as stack,
    ):
        tenant = stack.api.make_tenant()
        stack.api.make_pool("m", fleet.urls)
        key = stack.api.make_key(tenant)
        stack.settle()
        reader, writer = await asyncio.open_connection("127.0.0.1", stack.settings.gateway_port)
        writer.write(chat_request(key.key, "m", stream=True, max_tokens=400))
        seen = b""
        while seen.count(b"data:") < 20:
            seen += await reader.read(65536)
        left_at = time.time()
        writer.close()
        cancelled = await asyncio.to_thread(
            until, lambda: [r for r in fleet.records() if r.kind == "cancelled"], within_s=5
        )
        row = stack.wait_ledger(1)[0]
    assert cancelled[0].at - left_at <= 0.2
    assert row["outcome"] == "client_gone"
    produced = outcomes(fleet.records())[row["request_id"]].completion_tokens
    assert 15 <= row["output_tokens"] <= produced
    assert row["input_tokens"] == cancelled[0].prompt_tokens or row["usage_source"] != "engine"
    assert row["billed_microusd"] > 0
