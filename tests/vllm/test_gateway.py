"""The gateway before a real vLLM: it answers, streams, meters to the token, and stops it for a client that left."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from openai import BadRequestError, OpenAI

from tests.support.stack import Stack
from tests.support.waiting import until
from tests.vllm.conftest import MODEL

pytestmark = [pytest.mark.vllm, pytest.mark.enable_socket, pytest.mark.timeout(180)]

MESSAGES: Any = [{"role": "user", "content": "Say hello to the fox."}]
EOS: dict[str, Any] = {"ignore_eos": True}


@pytest.fixture(scope="module")
def stack(real_url: str) -> Iterator[Stack]:
    with Stack() as stack:
        stack.api.make_pool(MODEL, [real_url])
        yield stack


@pytest.fixture(scope="module")
def client(stack: Stack) -> OpenAI:
    key = stack.api.make_key(stack.api.make_tenant("vllm tests"))
    stack.settle()
    return stack.client(key.key, timeout=60)


def rows_of(stack: Stack, count: int, before: int) -> list[dict[str, Any]]:
    return stack.wait_ledger(before + count)[before:]


def metric(real_url: str, name: str) -> float:
    page = httpx.get(f"{real_url}/metrics", trust_env=False).text
    found = re.findall(rf"^{re.escape(name)}(?:\{{[^}}]*\}})? (\S+)$", page, re.MULTILINE)
    assert found, name
    return sum(map(float, found))


def test_an_answer_is_metered_as_the_engine_counted_it(stack: Stack, client: OpenAI) -> None:
    before = len(stack.ledger())
    answer = client.chat.completions.create(model=MODEL, messages=MESSAGES, max_tokens=8)
    assert answer.usage is not None
    row = rows_of(stack, 1, before)[0]
    assert row["input_tokens"] == answer.usage.prompt_tokens
    assert row["output_tokens"] == answer.usage.completion_tokens
    assert row["usage_source"] == "engine"
    assert row["billed_microusd"] == answer.usage.prompt_tokens + 2 * answer.usage.completion_tokens


def test_a_stream_is_metered_although_its_client_did_not_ask_for_usage(
    stack: Stack, client: OpenAI
) -> None:
    before = len(stack.ledger())
    with client.chat.completions.create(
        model=MODEL, messages=MESSAGES, max_tokens=8, stream=True
    ) as stream:
        events = list(stream)
    assert events[-1].choices[0].finish_reason in ("length", "stop")
    assert all(event.usage is None for event in events)
    row = rows_of(stack, 1, before)[0]
    assert (row["usage_source"], row["outcome"]) == ("engine", "ok")
    assert 1 <= row["output_tokens"] <= 8


def test_a_refusal_of_the_engine_reaches_the_caller_and_costs_nothing(
    stack: Stack, client: OpenAI
) -> None:
    before = len(stack.ledger())
    with pytest.raises(BadRequestError):
        client.chat.completions.create(model=MODEL, messages=MESSAGES, max_tokens=8, temperature=3)
    row = rows_of(stack, 1, before)[0]
    assert (row["outcome"], row["billed_microusd"]) == ("upstream_refused", 0)


def test_a_client_that_leaves_aborts_the_request_in_the_engine(
    stack: Stack, client: OpenAI, real_url: str
) -> None:
    before = len(stack.ledger())
    produced_before = metric(real_url, "vllm:generation_tokens_total")
    stream = client.chat.completions.create(
        model=MODEL, messages=MESSAGES, max_tokens=1500, stream=True, extra_body=EOS
    )
    seen = 0
    for event in stream:
        seen += bool(event.choices and event.choices[0].delta.content)
        if seen == 5:
            break
    assert metric(real_url, "vllm:num_requests_running") == 1
    stream.close()
    left_at = time.monotonic()
    until(
        lambda: metric(real_url, "vllm:num_requests_running") == 0,
        within_s=10,
        what="the engine to stop",
    )
    assert time.monotonic() - left_at < 5
    row = rows_of(stack, 1, before)[0]
    assert row["outcome"] == "client_gone"
    produced = metric(real_url, "vllm:generation_tokens_total") - produced_before
    assert produced < 1500, "the engine went on to the end"
    assert 5 <= row["output_tokens"] <= produced


def test_a_prompt_that_the_engine_has_cached_is_metered_as_cached(
    stack: Stack, client: OpenAI
) -> None:
    before = len(stack.ledger())
    long: Any = [
        {"role": "user", "content": "many words that fill whole blocks of the cache " * 30}
    ]
    for _ in range(2):
        client.chat.completions.create(model=MODEL, messages=long, max_tokens=1)
    first, second = rows_of(stack, 2, before)
    assert first["input_tokens"] == second["input_tokens"]
    assert second["cached_input_tokens"] >= 128
