"""The fake vLLM against the real one: same requests, same shape of answers, streams, errors and metric names."""

from __future__ import annotations

import asyncio
import json
import os
import re
from itertools import groupby
from typing import Any

import msgspec
import pytest
import zmq
import zmq.asyncio

from tests.fakes.engine import FakeEngine
from tests.vllm.conftest import MODEL, Pair

pytestmark = [pytest.mark.vllm, pytest.mark.enable_socket, pytest.mark.timeout(120)]

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
SAY: dict[str, Any] = {
    "model": MODEL,
    "messages": [{"role": "user", "content": "Say hello to the fox."}],
    "max_tokens": 6,
    "ignore_eos": True,
}
ONCE: dict[str, Any] = {
    "model": MODEL,
    "prompt": "Once upon a time",
    "max_tokens": 6,
    "ignore_eos": True,
}
USAGE: dict[str, Any] = {"stream": True, "stream_options": {"include_usage": True}}
CONTINUOUS: dict[str, Any] = {
    "stream": True,
    "stream_options": {"include_usage": True, "continuous_usage_stats": True},
}

ANSWERED = {
    "chat": (CHAT, SAY),
    "chat, two choices": (CHAT, SAY | {"n": 2}),
    "chat, logprobs": (CHAT, SAY | {"logprobs": True, "top_logprobs": 2}),
    "chat, token ids": (CHAT, SAY | {"return_token_ids": True}),
    "chat, unknown field": (CHAT, SAY | {"frobnicate": 1}),
    "chat, priority without the policy for it": (CHAT, SAY | {"priority": 3}),
    "chat, no model named": (CHAT, {k: v for k, v in SAY.items() if k != "model"}),
    "chat, message without content": (CHAT, SAY | {"messages": [{"role": "user"}]}),
    "chat, content parts": (
        CHAT,
        SAY | {"messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]},
    ),
    "chat, newer name of the limit": (
        CHAT,
        {k: v for k, v in SAY.items() if k != "max_tokens"} | {"max_completion_tokens": 3},
    ),
    "text": (TEXT, ONCE),
    "text, batch": (TEXT, ONCE | {"prompt": ["a", "b"]}),
    "text, token ids in": (TEXT, ONCE | {"prompt": [5, 6, 7]}),
    "text, token ids out": (TEXT, ONCE | {"return_token_ids": True}),
    "text, echo": (TEXT, ONCE | {"echo": True}),
    "tokenize": ("/tokenize", {"model": MODEL, "prompt": "Hello world"}),
    "tokenize a chat": ("/tokenize", {"model": MODEL, "messages": SAY["messages"]}),
    "detokenize": ("/detokenize", {"model": MODEL, "tokens": [300, 301]}),
}

STREAMED = {
    "chat": (CHAT, SAY | {"stream": True}),
    "chat, usage": (CHAT, SAY | USAGE),
    "chat, usage in every chunk": (CHAT, SAY | CONTINUOUS),
    "chat, token ids": (CHAT, SAY | {"stream": True, "return_token_ids": True}),
    "chat, logprobs": (CHAT, SAY | {"stream": True, "logprobs": True, "top_logprobs": 2}),
    "text": (TEXT, ONCE | {"stream": True}),
    "text, usage": (TEXT, ONCE | USAGE),
    "text, usage in every chunk": (TEXT, ONCE | CONTINUOUS),
}

TOOLS = [
    {
        "type": "function",
        "function": {"name": "f", "parameters": {"type": "object", "properties": {}}},
    }
]
NAMED_TOOL = {"type": "function", "function": {"name": "f"}}
REFUSED = {
    "unknown model": (CHAT, SAY | {"model": "nobody"}),
    "unknown model, streamed": (CHAT, SAY | {"model": "nobody", "stream": True}),
    "no messages": (CHAT, {"model": MODEL}),
    "empty messages": (CHAT, SAY | {"messages": []}),
    "messages of the wrong type": (CHAT, SAY | {"messages": "x"}),
    "max_tokens 0": (CHAT, SAY | {"max_tokens": 0}),
    "max_tokens negative": (CHAT, SAY | {"max_tokens": -1}),
    "max_tokens above the context": (CHAT, SAY | {"max_tokens": 5000}),
    "max_tokens no number": (CHAT, SAY | {"max_tokens": "x"}),
    "temperature negative": (CHAT, SAY | {"temperature": -1}),
    "temperature too high": (CHAT, SAY | {"temperature": 3}),
    "top_p too high": (CHAT, SAY | {"top_p": 2}),
    "n 0": (CHAT, SAY | {"n": 0}),
    "greedy and n 2": (CHAT, SAY | {"n": 2, "temperature": 0}),
    "stream options without a stream": (CHAT, SAY | {"stream_options": {"include_usage": True}}),
    "top_logprobs without logprobs": (CHAT, SAY | {"top_logprobs": 2}),
    "top_logprobs too many": (CHAT, SAY | {"logprobs": True, "top_logprobs": 50}),
    "empty salt": (CHAT, SAY | {"cache_salt": ""}),
    "salt with a slash": (CHAT, SAY | {"cache_salt": "a/b"}),
    "salt too long": (CHAT, SAY | {"cache_salt": "a" * 129}),
    "tools without a parser": (CHAT, SAY | {"tools": TOOLS}),
    "named tool without a parser": (CHAT, SAY | {"tools": TOOLS, "tool_choice": NAMED_TOOL}),
    "prompt above the context": (
        CHAT,
        SAY | {"messages": [{"role": "user", "content": "word " * 3000}]},
    ),
    "empty stop": (CHAT, SAY | {"stop": ""}),
    "seed no number": (CHAT, SAY | {"seed": "x"}),
    "stream neither true nor false": (CHAT, SAY | {"stream": "maybe"}),
    "own chat template": (CHAT, SAY | {"chat_template": "x"}),
    "body is a list": (CHAT, []),
    "no prompt": (TEXT, {"model": MODEL}),
    "empty prompt": (TEXT, ONCE | {"prompt": ""}),
    "no prompts in the list": (TEXT, ONCE | {"prompt": []}),
    "token id that does not exist": (TEXT, ONCE | {"prompt": [999_999]}),
    "no embeddings from a chat model": ("/v1/embeddings", {"model": MODEL, "input": "x"}),
    "tokenize for an unknown model": ("/tokenize", {"model": "nobody", "prompt": "x"}),
    "no such path": ("/nothing/here", {}),
}

RELIED_ON = (
    "vllm:num_requests_running",
    "vllm:num_requests_waiting",
    "vllm:kv_cache_usage_perc",
    "vllm:prefix_cache_queries",
    "vllm:prefix_cache_hits",
    "vllm:prompt_tokens",
    "vllm:generation_tokens",
    "vllm:request_success",
    "vllm:time_to_first_token_seconds",
    "vllm:inter_token_latency_seconds",
    "vllm:e2e_request_latency_seconds",
    "vllm:cache_config_info",
    "vllm:lora_requests_info",
)
"""Metrics that a gateway steers by."""


def shape(value: object) -> object:
    """Keys and types of a JSON value; a list is the shapes that are in it."""
    if isinstance(value, dict):
        # The bytes of a token may be none, which depends on the token and not on the engine.
        return {key: "bytes" if key == "bytes" else shape(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [json.loads(text) for text in sorted({json.dumps(shape(inner)) for inner in value})]
    return (
        "number"
        if isinstance(value, int | float) and not isinstance(value, bool)
        else type(value).__name__
    )


def events_of(text: str) -> list[Any]:
    datas = [line.removeprefix("data: ") for line in text.split("\n") if line.startswith("data: ")]
    return ["[DONE]" if data == "[DONE]" else json.loads(data) for data in datas]


@pytest.mark.parametrize("case", ANSWERED)
async def test_answers_have_the_same_shape(pair: Pair, case: str) -> None:
    path, body = ANSWERED[case]
    real, fake = await pair.send("POST", path, json=body)
    assert (fake.status_code, fake.headers["content-type"]) == (
        real.status_code,
        real.headers["content-type"],
    )
    assert real.status_code == 200
    assert shape(fake.json()) == shape(real.json())
    assert list(fake.json()) == list(real.json())


@pytest.mark.parametrize(
    "case", [name for name, (path, _) in ANSWERED.items() if path in (CHAT, TEXT)]
)
async def test_answers_count_tokens_in_the_same_places(pair: Pair, case: str) -> None:
    path, body = ANSWERED[case]
    real, fake = (answer.json()["usage"] for answer in await pair.send("POST", path, json=body))
    assert fake["completion_tokens"] == real["completion_tokens"]
    for usage in (real, fake):
        assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]


@pytest.mark.parametrize("case", STREAMED)
async def test_streams_have_the_same_events_in_the_same_order(pair: Pair, case: str) -> None:
    path, body = STREAMED[case]
    real, fake = await pair.send("POST", path, json=body)
    assert fake.headers["content-type"] == real.headers["content-type"]
    # The real engine may put two tokens into one event, so repeated shapes count once.
    order = [
        [key for key, _ in groupby(json.dumps(shape(e)) for e in events_of(a.text))]
        for a in (real, fake)
    ]
    assert order[1] == order[0]
    assert events_of(fake.text)[-1] == "[DONE]"


@pytest.mark.parametrize("case", REFUSED)
async def test_refusals_are_the_same_word_for_word(pair: Pair, case: str) -> None:
    path, body = REFUSED[case]
    real, fake = await pair.send("POST", path, json=body)
    assert fake.status_code == real.status_code
    assert fake.status_code >= 400
    assert fake.json() == real.json()


@pytest.mark.parametrize(
    ("content", "kind"),
    [(b'{"model": "tiny", ', "application/json"), (b"", "application/json"), (b"{}", "text/plain")],
)
async def test_broken_bodies_are_refused_alike(pair: Pair, content: bytes, kind: str) -> None:
    real, fake = await pair.send("POST", CHAT, content=content, headers={"content-type": kind})
    assert fake.status_code == real.status_code == 400
    assert (fake.json()["error"]["type"], shape(fake.json())) == (
        real.json()["error"]["type"],
        shape(real.json()),
    )


@pytest.mark.parametrize(
    "path", ["/health", "/version", "/load", "/ping", "/v1/models", "/v1/models/tiny", CHAT]
)
async def test_the_other_paths_answer_alike(pair: Pair, path: str) -> None:
    real, fake = await pair.send("GET", path)
    assert fake.status_code == real.status_code
    if real.content:
        assert shape(fake.json()) == shape(real.json())


async def test_the_request_id_of_the_header_becomes_part_of_the_answers_id(pair: Pair) -> None:
    answers = await pair.send("POST", CHAT, json=SAY, headers={"x-request-id": "abc-1"})
    assert [a.json()["id"] for a in answers] == ["chatcmpl-abc-1"] * 2
    assert ["x-request-id" in a.headers for a in answers] == [False, False]


async def test_a_repeated_prompt_is_found_in_both_caches(pair: Pair) -> None:
    body = SAY | {"messages": [{"role": "user", "content": "a long prompt of many words " * 60}]}
    await pair.send("POST", CHAT, json=body)
    answers = await pair.send("POST", CHAT, json=body)
    cached = [a.json()["usage"]["prompt_tokens_details"]["cached_tokens"] for a in answers]
    assert all(tokens >= 128 and tokens % 128 == 0 for tokens in cached)


async def test_adapters_are_loaded_and_unloaded_alike(pair: Pair, adapter_path: str) -> None:
    load, unload = "/v1/load_lora_adapter", "/v1/unload_lora_adapter"
    tuned = {"lora_name": "tuned", "lora_path": adapter_path}
    steps = [
        (load, tuned),
        (load, tuned),
        (load, {"lora_name": MODEL, "lora_path": adapter_path}),
        (load, {"lora_name": "other", "lora_path": f"{adapter_path}/missing"}),
        (load, {"lora_name": "other", "lora_path": "/tmp/some/missing"}),
        (load, {"lora_name": "other", "lora_path": "/data/missing"}),
        (load, {"lora_name": "other"}),
        (load, {"lora_name": "", "lora_path": ""}),
        (unload, {"lora_name": "tuned"}),
        (unload, {"lora_name": "tuned"}),
        (unload, {}),
    ]
    for number, (path, body) in enumerate(steps):
        real, fake = await pair.send("POST", path, json=body)
        assert (fake.status_code, fake.text) == (real.status_code, real.text), (path, body)
        if number == 0:
            await _check_loaded(pair)


async def _check_loaded(pair: Pair) -> None:
    real, fake = await pair.send("GET", "/v1/models")
    assert shape(fake.json()) == shape(real.json())
    assert fake.json()["data"][1]["parent"] == real.json()["data"][1]["parent"] == MODEL
    real, fake = await pair.send("POST", CHAT, json=SAY | {"model": "tuned"})
    assert fake.json()["model"] == real.json()["model"] == "tuned"


def families_of(page: str) -> dict[str, tuple[str, frozenset[str]]]:
    """Name of each sample to the type of its family and its label names."""
    kinds = dict(re.findall(r"^# TYPE (\S+) (\S+)$", page, re.MULTILINE))
    found = {}
    for name, labels in re.findall(r"^([a-z_:]+)(?:\{(.*)\})? ", page, re.MULTILINE):
        family = re.sub(r"_(bucket|count|sum)$", "", name)
        kind = kinds.get(name) or kinds.get(family, "")
        found[name] = (kind, frozenset(re.findall(r'(\w+)="', labels)))
    return found


async def test_every_metric_of_the_fake_exists_in_the_real_engine(
    pair: Pair, adapter_path: str
) -> None:
    await pair.send("POST", CHAT, json=SAY)
    real, fake = (families_of(answer.text) for answer in await pair.send("GET", "/metrics"))
    missing = sorted(set(fake) - set(real))
    assert missing == []
    for name, (kind, labels) in fake.items():
        assert kind == real[name][0], name
        assert labels <= real[name][1], name
    exact = {name for name in fake if not name.endswith("cache_config_info")}
    assert [name for name in exact if fake[name][1] != real[name][1]] == []


@pytest.mark.parametrize("name", RELIED_ON)
async def test_the_metrics_a_gateway_steers_by_exist_in_both(pair: Pair, name: str) -> None:
    for answer in await pair.send("GET", "/metrics"):
        assert re.search(rf"^{name}(_total|_bucket)?\{{", answer.text, re.MULTILINE)


async def test_kv_events_have_the_same_form(pair: Pair, fake: FakeEngine) -> None:
    assert fake.kv is not None
    endpoints = [os.environ["VLLM_KV_ENDPOINT"], f"tcp://127.0.0.1:{fake.kv.port}"]
    context = zmq.asyncio.Context()
    try:
        readers = [context.socket(zmq.SUB) for _ in endpoints]
        for reader, endpoint in zip(readers, endpoints, strict=True):
            reader.connect(endpoint)
            reader.setsockopt(zmq.SUBSCRIBE, b"")
        await asyncio.sleep(0.5)
        fresh = os.urandom(6).hex()
        body = ONCE | {"prompt": f"{fresh} " * 140, "cache_salt": "tenant"}
        await pair.send("POST", TEXT, json=body)
        frames = [await asyncio.wait_for(reader.recv_multipart(), 10) for reader in readers]
    finally:
        context.destroy(0)
    real, pretended = (msgspec.msgpack.decode(parts[2]) for parts in frames)
    assert [len(parts[1]) for parts in frames] == [8, 8]
    assert [shape(part) for part in (pretended[0], pretended[2])] == [
        shape(part) for part in (real[0], real[2])
    ]
    assert set(pretended[1][0]) == set(real[1][0])
    assert shape(pretended[1][0]) == shape(real[1][0])
    real_sources, fake_sources = (a.json() for a in await pair.send("GET", "/kv_event_sources"))
    assert shape(fake_sources) == shape(real_sources)
