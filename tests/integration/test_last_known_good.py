"""The data plane stands alone: without console, database and Redis it starts from disk and serves."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes.engine import EngineOptions, FakeEngineProcess
from tests.support.stack import Stack

pytestmark = [pytest.mark.integration, pytest.mark.enable_socket, pytest.mark.timeout(180)]

QUESTION = [{"role": "user", "content": "Are you there?"}]


def test_the_gateway_restarts_from_disk_and_its_events_arrive_later(tmp_path: Path) -> None:
    with (
        FakeEngineProcess(EngineOptions(models=("m",)), tmp_path / "truth.jsonl") as fleet,
        Stack(workers=2) as stack,
    ):
        tenant = stack.api.make_tenant()
        stack.api.make_pool("m", fleet.urls)
        budget = {"limit_microusd": 10**8, "window": "day", "mode": "hard"}
        key = stack.api.make_key(tenant, budgets=[budget])
        version = stack.settle()
        client = stack.client(key.key)
        for _ in range(8):
            client.chat.completions.create(model="m", messages=QUESTION)  # type: ignore[arg-type]
        stack.wait_ledger(8)

        stack.stop("ingest", "console", "postgres", "valkey", "gateway")
        stack.start("gateway")
        alone = [
            client.chat.completions.with_raw_response.create(model="m", messages=QUESTION)  # type: ignore[arg-type]
            for _ in range(6)
        ]
        assert {int(answer.headers["x-ace-policy-version"]) for answer in alone} == {version}
        assert all(answer.parse().choices[0].message.content for answer in alone)

        stack.start("postgres", "valkey")
        stack.start("console", "ingest")
        rows = stack.wait_ledger(14, within_s=30)
    ids = {answer.headers["x-request-id"] for answer in alone}
    assert len(rows) == 14
    assert ids <= {row["request_id"] for row in rows}


def test_a_killed_redis_and_database_stop_no_request(tmp_path: Path) -> None:
    with (
        FakeEngineProcess(EngineOptions(models=("m",)), tmp_path / "truth.jsonl") as fleet,
        Stack(workers=1, durable=True) as stack,
    ):
        tenant = stack.api.make_tenant()
        stack.api.make_pool("m", fleet.urls)
        key = stack.api.make_key(tenant)
        stack.settle()
        client = stack.client(key.key)
        stack.kill("valkey", "postgres")
        for _ in range(5):
            client.chat.completions.create(model="m", messages=QUESTION)  # type: ignore[arg-type]
        stack.start("postgres", "valkey")
        rows = stack.wait_ledger(5, within_s=30)
    assert len(rows) == 5
