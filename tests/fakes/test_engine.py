"""A fake engine over a real socket: answers, streams, metering, cancelling, and the truth log that tells of them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from openai import AsyncOpenAI

from tests.fakes.engine import (
    EngineOptions,
    FakeEngine,
    Limits,
    Timing,
    accepted,
    credential_mark,
    outcomes,
)
from tests.fakes.engine.lexicon import count_tokens

pytestmark = pytest.mark.enable_socket

ASK = {"model": "fake-model", "messages": [{"role": "user", "content": "Say hello."}]}


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[FakeEngine]:
    options = EngineOptions(log_bodies=True, limits=Limits(max_loras=2))
    async with FakeEngine(options, truth=tmp_path / "truth.jsonl") as engine:
        yield engine


@pytest.fixture
async def http(engine: FakeEngine) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=engine.url, trust_env=False, timeout=5) as client:
        yield client


async def ask(
    http: httpx.AsyncClient, path: str = "/v1/chat/completions", **fields: Any
) -> httpx.Response:
    return await http.post(path, json=ASK | fields)


def events_of(text: str) -> list[Any]:
    datas = [line.removeprefix("data: ") for line in text.split("\n") if line.startswith("data: ")]
    return [json.loads(data) for data in datas if data != "[DONE]"]


async def settled(engine: FakeEngine, request_id: str) -> Any:
    """The last word of the truth log on a request, waited for."""
    for _ in range(500):
        found = outcomes(engine.truth.records()).get(request_id)
        if found is not None:
            return found
        await asyncio.sleep(0.005)
    raise AssertionError(f"nothing happened to {request_id}")


async def test_usage_counts_the_tokens_of_the_text(http: httpx.AsyncClient) -> None:
    body = (await ask(http, max_tokens=11, ignore_eos=True)).json()
    assert (
        body["usage"]["completion_tokens"]
        == count_tokens(body["choices"][0]["message"]["content"])
        == 11
    )
    assert body["choices"][0]["finish_reason"] == "length"


async def test_the_stream_says_the_same_as_the_whole_answer(http: httpx.AsyncClient) -> None:
    whole = (await ask(http)).json()
    options = {"include_usage": True}
    events = events_of((await ask(http, stream=True, stream_options=options)).text)
    text = "".join(c["delta"].get("content", "") for e in events for c in e["choices"])
    assert text == whole["choices"][0]["message"]["content"]
    assert events[-1]["choices"] == []
    assert events[-1]["usage"]["completion_tokens"] == whole["usage"]["completion_tokens"]
    assert [c["finish_reason"] for e in events for c in e["choices"]][-1] == "stop"


async def test_an_answer_ends_before_the_stop_string_and_is_paid_to_its_end(
    http: httpx.AsyncClient,
) -> None:
    text = (await ask(http)).json()["choices"][0]["message"]["content"]
    third = text.split(" ")[2]
    body = (await ask(http, stop=[third])).json()
    assert body["choices"][0]["message"]["content"] == text[: text.index(third)]
    assert body["choices"][0]["stop_reason"] == third
    assert body["usage"]["completion_tokens"] == 3
    events = events_of((await ask(http, stop=[third], stream=True)).text)
    assert (
        "".join(c["delta"].get("content", "") for e in events for c in e["choices"])
        == text[: text.index(third)]
    )


async def test_several_choices_differ_and_are_all_counted(http: httpx.AsyncClient) -> None:
    body = (await ask(http, n=3, max_tokens=5, ignore_eos=True)).json()
    assert len({choice["message"]["content"] for choice in body["choices"]}) == 3
    assert body["usage"]["completion_tokens"] == 15


async def test_a_repeated_prompt_reports_cached_tokens(http: httpx.AsyncClient) -> None:
    long: dict[str, Any] = {"messages": [{"role": "user", "content": "word " * 100}]}
    first = (await ask(http, **long)).json()["usage"]
    second = (await ask(http, **long)).json()["usage"]
    salted = (await ask(http, **long, cache_salt="other")).json()["usage"]
    assert [u["prompt_tokens_details"]["cached_tokens"] for u in (first, second, salted)] == [
        0,
        96,
        0,
    ]


async def test_the_official_client_reads_answers_streams_models_and_vectors(
    engine: FakeEngine,
) -> None:
    async with AsyncOpenAI(base_url=f"{engine.url}/v1", api_key="unused", max_retries=0) as client:
        messages: Any = ASK["messages"]
        whole = await client.chat.completions.create(model="fake-model", messages=messages)
        stream = await client.chat.completions.create(
            model="fake-model", messages=messages, stream=True
        )
        text = "".join([e.choices[0].delta.content or "" async for e in stream])
        models = [model.id async for model in client.models.list()]
        vectors = await client.embeddings.create(model="fake-model", input=["a", "b"])
        old = await client.completions.create(model="fake-model", prompt="Once", max_tokens=4)
    assert text == whole.choices[0].message.content
    assert models == ["fake-model"]
    assert len(vectors.data) == 2
    assert old.usage is not None
    assert old.usage.completion_tokens == 4


async def test_a_forced_function_is_called_with_arguments_that_parse(
    http: httpx.AsyncClient,
) -> None:
    tools = [
        {"type": "function", "function": {"name": "look_up", "parameters": {"type": "object"}}}
    ]
    choice = (await ask(http, tools=tools, tool_choice="required")).json()["choices"][0]
    call = choice["message"]["tool_calls"][0]["function"]
    assert (call["name"], choice["finish_reason"]) == ("look_up", "tool_calls")
    events = events_of((await ask(http, tools=tools, tool_choice="required", stream=True)).text)
    deltas = [
        call for e in events for c in e["choices"] for call in c["delta"].get("tool_calls", [])
    ]
    streamed = "".join(delta["function"]["arguments"] for delta in deltas)
    assert json.loads(streamed) == json.loads(call["arguments"])


async def test_tokenize_counts_what_usage_counts(http: httpx.AsyncClient) -> None:
    counted = (await http.post("/tokenize", json=ASK)).json()
    assert counted["count"] == (await ask(http)).json()["usage"]["prompt_tokens"]
    back = await http.post("/detokenize", json={"tokens": counted["tokens"][1:-2]})
    assert back.json() == {"prompt": "Say hello."}


async def test_a_client_that_leaves_stops_the_engine_at_once(
    engine: FakeEngine, http: httpx.AsyncClient
) -> None:
    engine.set_timing(decode_tokens_per_s=200)
    head = {"x-request-id": "gone"}
    async with http.stream(
        "POST",
        "/v1/chat/completions",
        json=ASK | {"stream": True, "max_tokens": 2000, "ignore_eos": True},
        headers=head,
    ) as answer:
        async for _ in answer.aiter_lines():
            break
    loop = asyncio.get_running_loop()
    left = loop.time()
    last = await settled(engine, "gone")
    assert last.kind == "cancelled"
    assert loop.time() - left < 0.2
    assert 0 < last.completion_tokens < 200
    assert engine.load().running == 0


async def test_the_truth_log_tells_what_arrived_without_telling_secrets(
    engine: FakeEngine, http: httpx.AsyncClient
) -> None:
    head = {"x-request-id": "r1", "authorization": "Bearer provider-key", "x-extra": "seen"}
    await http.post("/v1/chat/completions", json=ASK | {"cache_salt": "s"}, headers=head)
    record = accepted(engine.truth.records())["r1"]
    assert record.headers["x-extra"] == "seen"
    assert record.headers["authorization"] == credential_mark("Bearer provider-key")
    assert record.fields == ("model", "messages", "cache_salt")
    assert record.body["cache_salt"] == "s"
    done = outcomes(engine.truth.records())["r1"]
    assert (done.kind, done.prompt_tokens) == ("finished", record.prompt_tokens)
    assert engine.truth.path is not None
    assert "provider-key" not in engine.truth.path.read_text()


async def test_an_adapter_answers_otherwise_and_is_listed_until_it_is_unloaded(
    http: httpx.AsyncClient,
) -> None:
    load = {"lora_name": "tuned", "lora_path": "/adapters/tuned"}
    assert (await ask(http, model="tuned")).status_code == 404
    assert (await http.post("/v1/load_lora_adapter", json=load)).text.startswith("Success")
    assert (await http.post("/v1/load_lora_adapter", json=load)).status_code == 400
    texts = {
        (await ask(http, model=model)).json()["choices"][0]["message"]["content"]
        for model in ("tuned", "fake-model")
    }
    assert len(texts) == 2
    cards = (await http.get("/v1/models")).json()["data"]
    assert (cards[1]["id"], cards[1]["parent"], cards[1]["root"]) == (
        "tuned",
        "fake-model",
        "/adapters/tuned",
    )
    assert (
        await http.post("/v1/unload_lora_adapter", json={"lora_name": "tuned"})
    ).status_code == 200
    assert (await ask(http, model="tuned")).status_code == 404


async def test_a_full_queue_refuses_with_the_engines_words(
    engine: FakeEngine, http: httpx.AsyncClient
) -> None:
    engine.set_limits(max_num_seqs=1, max_queued=1)
    engine.set_timing(ttft_floor_ms=200)
    answers = await asyncio.gather(*(ask(http) for _ in range(4)))
    assert sorted(a.status_code for a in answers) == [200, 200, 503, 503]
    refused = next(a for a in answers if a.status_code == 503)
    assert refused.json()["error"]["type"] == "Service Unavailable"
    assert "retry-after" not in refused.headers


async def test_metrics_show_running_requests_and_count_finished_ones(
    engine: FakeEngine, http: httpx.AsyncClient
) -> None:
    engine.set_timing(ttft_floor_ms=100)
    running = asyncio.ensure_future(ask(http))
    await asyncio.sleep(0.03)
    assert (
        'num_requests_running{engine="0",model_name="fake-model"} 1.0'
        in (await http.get("/metrics")).text
    )
    done = (await running).json()["usage"]
    page = (await http.get("/metrics")).text
    assert (
        f'vllm:generation_tokens_total{{engine="0",model_name="fake-model"}} {done["completion_tokens"]}.0'
        in page
    )
    assert 'num_requests_running{engine="0",model_name="fake-model"} 0.0' in page


@pytest.mark.parametrize(
    ("version", "there", "missing"),
    [
        ("0.10.2", "vllm:gpu_cache_usage_perc", "vllm:kv_cache_usage_perc"),
        ("0.32.0", "vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
        (
            "0.32.0",
            "vllm:inter_token_latency_seconds_bucket",
            "vllm:time_per_output_token_seconds_bucket",
        ),
    ],
)
async def test_metric_names_follow_the_version(version: str, there: str, missing: str) -> None:
    async with (
        FakeEngine(EngineOptions(version=version)) as engine,
        httpx.AsyncClient(trust_env=False) as http,
    ):
        page = (await http.get(f"{engine.url}/metrics")).text
    assert there in page
    assert missing not in page


async def test_a_timed_engine_takes_its_time(http: httpx.AsyncClient, engine: FakeEngine) -> None:
    engine.set_timing(decode_tokens_per_s=100, ttft_floor_ms=0)
    loop = asyncio.get_running_loop()
    began = loop.time()
    await ask(http, max_tokens=20, ignore_eos=True)
    assert 0.19 < loop.time() - began < 1.0


def test_a_misspelt_option_is_refused() -> None:
    with pytest.raises(TypeError):
        Timing(decode_tokens_per_second=3)  # type: ignore[call-arg]
