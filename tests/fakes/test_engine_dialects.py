"""Where the three engines differ, as a gateway must know it; `make test-vllm` holds vLLM against the real one."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.fakes.engine import EngineOptions, FakeEngine
from tests.fakes.engine.options import Personality
from tests.fakes.test_engine import ASK, events_of

pytestmark = pytest.mark.enable_socket

CHAT = "/v1/chat/completions"
WITH_USAGE = {"stream": True, "stream_options": {"include_usage": True}}


async def post(personality: Personality, path: str, body: dict[str, Any]) -> httpx.Response:
    async with (
        FakeEngine(EngineOptions(personality=personality)) as engine,
        httpx.AsyncClient(trust_env=False) as http,
    ):
        return await http.post(engine.url + path, json=body)


@pytest.mark.parametrize(
    ("personality", "status"), [("vllm", 200), ("sglang", 200), ("trtllm", 400)]
)
async def test_only_trtllm_refuses_fields_it_does_not_know(
    personality: Personality, status: int
) -> None:
    answer = await post(personality, CHAT, ASK | {"frobnicate": 1})
    assert answer.status_code == status


async def test_trtllm_takes_a_cache_salt_for_chats_and_refuses_it_for_completions() -> None:
    assert (await post("trtllm", CHAT, ASK | {"cache_salt": "a"})).status_code == 200
    body = {"model": "m", "prompt": "x", "cache_salt": "a"}
    refused = await post("trtllm", "/v1/completions", body)
    assert refused.status_code == 400
    assert "cache_salt" in refused.json()["error"]


@pytest.mark.parametrize(
    ("personality", "status"), [("vllm", 404), ("sglang", 200), ("trtllm", 200)]
)
async def test_only_vllm_refuses_a_model_it_does_not_serve(
    personality: Personality, status: int
) -> None:
    assert (await post(personality, CHAT, ASK | {"model": "nobody"})).status_code == status


@pytest.mark.parametrize(
    ("personality", "priority", "status"),
    [("vllm", 5, 200), ("sglang", 5, 200), ("trtllm", 5, 400), ("trtllm", 0.5, 200)],
)
async def test_priority_has_other_ranges(
    personality: Personality, priority: float, status: int
) -> None:
    assert (await post(personality, CHAT, ASK | {"priority": priority})).status_code == status


@pytest.mark.parametrize("personality", ["vllm", "sglang", "trtllm"])
async def test_streams_and_whole_answers_agree_in_every_dialect(personality: Personality) -> None:
    whole = (await post(personality, CHAT, ASK)).json()
    events = events_of((await post(personality, CHAT, ASK | WITH_USAGE)).text)
    text = "".join(c["delta"].get("content") or "" for e in events for c in e["choices"])
    assert text == whole["choices"][0]["message"]["content"]
    assert events[-1]["usage"]["completion_tokens"] == whole["usage"]["completion_tokens"]


@pytest.mark.parametrize(
    ("personality", "key"),
    [("vllm", "stop_reason"), ("sglang", "matched_stop"), ("trtllm", "stop_reason")],
)
async def test_the_stop_that_matched_has_other_names(personality: Personality, key: str) -> None:
    text = (await post(personality, CHAT, ASK)).json()["choices"][0]["message"]["content"]
    stop = text.split(" ")[1]
    assert (await post(personality, CHAT, ASK | {"stop": stop})).json()["choices"][0][key] == stop


@pytest.mark.parametrize("personality", ["sglang", "trtllm"])
async def test_their_refusals_are_flat_objects(personality: Personality) -> None:
    error = (await post(personality, CHAT, ASK | {"max_tokens": 0})).json()
    assert (error["object"], error["code"]) == ("error", 400)


@pytest.mark.parametrize(
    ("personality", "path", "name"),
    [
        ("vllm", "/metrics", "vllm:num_requests_waiting"),
        ("sglang", "/metrics", "sglang:num_queue_reqs"),
        ("trtllm", "/prometheus/metrics", "trtllm_num_requests_waiting"),
    ],
)
async def test_each_counts_under_its_own_names_at_its_own_path(
    personality: Personality, path: str, name: str
) -> None:
    async with (
        FakeEngine(EngineOptions(personality=personality)) as engine,
        httpx.AsyncClient(trust_env=False) as http,
    ):
        page = (await http.get(engine.url + path)).text
        other = (await http.get(f"{engine.url}/metrics")).text
    assert f"\n{name}{{" in page
    if personality == "trtllm":
        assert other == "[]"


async def test_sglang_addresses_adapters_after_a_colon_and_refuses_unknown_ones() -> None:
    async with (
        FakeEngine(EngineOptions(personality="sglang")) as engine,
        httpx.AsyncClient(trust_env=False) as http,
    ):
        ask = ASK | {"model": "fake-model:tuned"}
        before = await http.post(engine.url + CHAT, json=ask)
        load = {"lora_name": "tuned", "lora_path": "/adapters/tuned"}
        loaded = await http.post(f"{engine.url}/load_lora_adapter", json=load)
        after = await http.post(engine.url + CHAT, json=ask)
    assert "never been loaded" in before.json()["message"]
    assert loaded.json()["loaded_adapters"] == {"tuned": "/adapters/tuned"}
    assert after.status_code == 200


async def test_an_older_vllm_takes_salts_that_the_newest_refuses() -> None:
    statuses = []
    for version in ("0.19.1", "0.32.0"):
        async with (
            FakeEngine(EngineOptions(version=version)) as engine,
            httpx.AsyncClient(trust_env=False) as http,
        ):
            statuses.append(
                (await http.post(engine.url + CHAT, json=ASK | {"cache_salt": "a/b"})).status_code
            )
    assert statuses == [200, 400]
