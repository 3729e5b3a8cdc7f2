"""A worker that is killed mid-traffic loses no money and invents none."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
from collections import Counter
from pathlib import Path

import pytest

from tests.fakes.engine import EngineOptions, FakeEngineProcess, Timing
from tests.support.load import Load, chat_request
from tests.support.stack import Stack
from tests.support.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.enable_socket, pytest.mark.timeout(240)]

KILLS = 50
BETWEEN_S = (0.1, 0.5)
TIMING = Timing(prefill_tokens_per_s=8000, decode_tokens_per_s=200, ttft_floor_ms=5)


async def test_each_accepted_request_has_one_ledger_row_after_fifty_kills(tmp_path: Path) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    dice = random.Random(seed)
    options = EngineOptions(models=("m",), timing=TIMING, answer_tokens=(2, 30))
    with (
        FakeEngineProcess(options, tmp_path / "truth.jsonl", count=2) as fleet,
        Stack(workers=2) as stack,
    ):
        tenant = stack.api.make_tenant()
        stack.api.make_pool("m", fleet.urls)
        budget = {"limit_microusd": 10**9, "window": "day", "mode": "hard"}
        key = stack.api.make_key(tenant, budgets=[budget])
        stack.settle()

        async def kill() -> None:
            for _ in range(KILLS):
                await asyncio.sleep(dice.uniform(*BETWEEN_S))
                pids = stack.gateway_worker_pids()
                if pids:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(dice.choice(pids), signal.SIGKILL)

        def request(number: int) -> bytes:
            return chat_request(key.key, "m", f"request {number}", stream=number % 2 == 0)

        load = Load(stack.settings.gateway_port, request, per_s=80, connections=48)
        answers = await load.run(KILLS * sum(BETWEEN_S) / 2, beside=kill())
        broken = sum(1 for answer in answers if not answer.ok)
        accepted = Counter(r.request_id for r in fleet.records() if r.kind == "accepted")
        print(f"{len(answers)} requests, {broken} broken, {len(accepted)} accepted by an engine")
        assert broken, "no kill hit a request: the test would prove nothing"
        assert "" not in accepted

        def rows() -> dict[str, str]:
            found = [(str(row["request_id"]), str(row["outcome"])) for row in stack.ledger()]
            assert len(found) == len(dict(found)), "a request stands in the ledger twice"
            return dict(found)

        until(
            lambda: accepted.keys() <= rows().keys(),
            within_s=30,
            what="every accepted request stands in the ledger",
            every_s=0.5,
        )
        billed = rows()
    # A request is recorded before the engine hears of it: killed in between, nobody can know whether it did.
    unseen = {billed[request_id] for request_id in billed.keys() - accepted.keys()}
    assert unseen <= {"interrupted"}
