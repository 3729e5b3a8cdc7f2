"""The whole worker in one process: both doors, a scripted engine, a real Valkey."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import redis

from tests.gateway import rig

pytestmark = [pytest.mark.enable_socket, pytest.mark.integration]
DOORS = ("own", "uvicorn")


@pytest.mark.parametrize("door", DOORS)
async def test_it_answers_plain_and_streamed_and_leaves_one_row_each(
    door: str, tmp_path: Path, valkey: redis.Redis
) -> None:
    async with (
        rig.Engine(rig.answer_all) as engine,
        rig.Ledger(os.environ["REDIS_URL"]) as ledger,
    ):
        rig.publish(valkey, rig.snapshot(ports=(engine.port,), budgets=(rig.budget(10_000),)))
        async with rig.running(rig.settings(tmp_path), door) as (_, url), rig.client(url) as client:
            plain = await client.post("/v1/chat/completions", json=rig.ask())
            assert plain.status_code == 200, plain.text
            assert plain.headers["x-ace-policy-version"] == "1"
            assert plain.headers["x-ace-cost-micros"] == "20"
            streamed = await client.post("/v1/chat/completions", json=rig.ask(stream=True))
            assert streamed.text.endswith("data: [DONE]\n\n")
            assert "usage" not in streamed.text
            assert "t4" in streamed.text
            await rig.eventually(lambda: len(ledger.rows) == 2)
    assert [row.billed_microusd for row in ledger.rows] == [20, 20]
    assert {row.outcome for row in ledger.rows} == {"ok"}
    assert {row.usage_source for row in ledger.rows} == {"engine"}
    assert engine.seen[1]["stream_options"] == {"include_usage": True}


@pytest.mark.parametrize("door", DOORS)
async def test_other_paths_are_refused_in_the_dialect(
    door: str, tmp_path: Path, valkey: redis.Redis
) -> None:
    rig.publish(valkey, rig.snapshot())
    async with rig.running(rig.settings(tmp_path), door) as (_, url), rig.client(url) as client:
        assert (await client.get("/livez")).status_code == 200
        ready = await client.get("/readyz")
        assert ready.status_code == 200, ready.text
        missing = await client.get("/v1/admin")
        assert missing.status_code == 404
        assert missing.json()["error"]["code"] == "not_found"
        wrong = await client.get("/v1/chat/completions")
        assert wrong.status_code == 405
        models = await client.get("/v1/models")
        assert [model["id"] for model in models.json()["data"]] == [rig.MODEL]
        assert (await client.get(f"/v1/models/{rig.MODEL}")).json()["id"] == rig.MODEL
        unknown = await client.get("/v1/models/none")
        assert unknown.json()["error"]["code"] == "model_not_found"
        assert "ace_requests_total" in (await client.get("/metrics")).text
    async with (
        rig.running(rig.settings(tmp_path), door) as (_, url),
        rig.client(url, "no") as nobody,
    ):
        assert (await nobody.get("/v1/models")).status_code == 401
