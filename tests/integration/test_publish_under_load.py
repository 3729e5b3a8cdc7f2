"""Publishing while applications work: nothing fails, nothing is judged by two policies, everybody hears of it."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from pathlib import Path

import pytest

from tests.fakes.engine import EngineOptions, FakeEngineProcess
from tests.support.load import Answer, Load, chat_request
from tests.support.stack import Stack

pytestmark = [pytest.mark.integration, pytest.mark.enable_socket, pytest.mark.timeout(180)]

WORKERS = 2
PUBLISHES = 10
SECONDS = 20
PER_S = 300


async def test_ten_publishes_under_load_fail_no_request_and_reach_every_worker(
    tmp_path: Path,
) -> None:
    options = EngineOptions(models=("m",), answer_tokens=(2, 4))
    with (
        FakeEngineProcess(options, tmp_path / "truth.jsonl", count=2) as fleet,
        Stack(workers=WORKERS) as stack,
    ):
        tenant = stack.api.make_tenant()
        stack.api.make_pool("m", fleet.urls)
        key = stack.api.make_key(tenant)
        first = stack.settle()
        published: list[int] = []
        acks: list[float] = []

        async def publish() -> None:
            for number in range(PUBLISHES):
                await asyncio.sleep(SECONDS / (PUBLISHES + 1))
                skills = {"circuit_breaker": {"mode": "enforce", "min_calls": 20 + number}}
                await asyncio.to_thread(stack.api.put_policy, "global", skills)
                version = await asyncio.to_thread(stack.api.publish, f"number {number}")
                workers = await asyncio.to_thread(stack.api.wait_acked, version, WORKERS)
                published.append(version)
                acks.extend(float(worker["ack_ms"]) for worker in workers)

        port = stack.settings.gateway_port
        load = Load(port, lambda number: chat_request(key.key, "m", f"request {number}"), PER_S)
        answers = await load.run(SECONDS, beside=publish())

    failed = [answer for answer in answers if not answer.ok]
    assert len(answers) == SECONDS * PER_S
    assert not failed, f"{len(failed)} failed, first: {failed[0].status} {failed[0].error}"
    assert {_version(answer) for answer in answers} <= {first, *published}
    assert published == sorted(set(published))
    assert len(acks) == PUBLISHES * WORKERS
    assert max(acks) <= 1000
    _assert_versions_never_go_back(answers)


def _version(answer: Answer) -> int:
    return int(answer.header("x-ace-policy-version"))


def _assert_versions_never_go_back(answers: list[Answer]) -> None:
    """A connection belongs to one worker, so what it sees is that worker's history."""
    seen: dict[int, list[int]] = defaultdict(list)
    for answer in sorted(answers, key=lambda answer: answer.began):
        seen[answer.connection].append(_version(answer))
    for versions in seen.values():
        assert versions == sorted(versions)
