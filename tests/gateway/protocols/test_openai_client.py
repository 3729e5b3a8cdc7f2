"""The official client before the gateway: all it can say reaches the engine; what is wrong is its own kind of error."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import openai
import pytest
import redis

from tests.gateway import rig

pytestmark = [pytest.mark.enable_socket, pytest.mark.integration]
USER = {"role": "user", "content": "hello"}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
SCHEMA = {"type": "json_schema", "json_schema": {"name": "x", "schema": {}, "strict": True}}
CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
PARTS = [
    {"type": "text", "text": "what is this?"},
    {"type": "image_url", "image_url": {"url": "https://x/y.png", "detail": "low"}},
    {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
]
HISTORY = [
    {"role": "system", "content": "be brief"},
    {"role": "developer", "content": [{"type": "text", "text": "be kind"}], "name": "dev"},
    {"role": "user", "content": PARTS},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "4"},
    {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}], "refusal": None},
    {"role": "function", "name": "f", "content": None},
    USER,
]


class Play:
    def __init__(self, url: str, engine: rig.Engine) -> None:
        self.engine = engine
        self.client = openai.AsyncOpenAI(
            api_key=rig.KEY,
            base_url=f"{url}/v1",
            max_retries=0,
        )

    async def create(self, **fields: Any) -> Any:
        return await self.client.chat.completions.create(
            **({"model": rig.MODEL, "messages": [USER]} | fields)
        )


@pytest.fixture
async def play(tmp_path: Path, valkey: redis.Redis) -> AsyncIterator[Play]:
    async with rig.Ledger(os.environ["REDIS_URL"]), rig.Engine(rig.answer_all) as engine:
        rig.publish(valkey, rig.snapshot(ports=(engine.port,)))
        async with rig.running(rig.settings(tmp_path)) as (_, url):
            here = Play(url, engine)
            yield here
            await here.client.close()


async def test_all_that_the_client_can_say_reaches_the_engine(play: Play) -> None:
    said: tuple[dict[str, Any], ...] = (
        {"stop": None},
        {"stop": "x"},
        {"stop": ["x", "y"]},
        {"tools": [TOOL], "tool_choice": "auto", "parallel_tool_calls": False},
        {"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "f"}}},
        {"functions": [{"name": "f"}], "function_call": {"name": "f"}},
        {"functions": [{"name": "f"}], "function_call": "none"},
        {"response_format": SCHEMA},
        {"response_format": {"type": "json_object"}},
        {"logit_bias": {"50256": -100}, "logprobs": True, "top_logprobs": 3},
        {"modalities": ["text", "audio"], "audio": {"format": "wav", "voice": "alloy"}},
        {"prediction": {"type": "content", "content": [{"type": "text", "text": "x"}]}},
        {"metadata": {"team": "x"}, "user": "u", "store": True, "safety_identifier": "s"},
        {"reasoning_effort": "low", "verbosity": "low", "service_tier": "auto", "seed": 7},
        {"temperature": 0, "top_p": 0.5, "frequency_penalty": 1.5, "presence_penalty": -1},
        {"n": 2, "web_search_options": {"search_context_size": "low"}},
        {"messages": HISTORY},
        {"extra_body": {"min_p": 0.1, "top_k": -1, "something_new": {"a": [1]}}},
    )
    for fields in said:
        answer = await play.create(**fields)
        assert answer.choices[0].message.content == "hi"
        seen = play.engine.seen.pop()
        sent = fields.get("extra_body", fields)
        assert {name: seen[name] for name in sent} == sent


async def test_both_limits_of_the_client_reach_the_engine_as_one(play: Play) -> None:
    for name in ("max_tokens", "max_completion_tokens"):
        await play.create(**{name: 7})
        assert play.engine.seen.pop()["max_tokens"] == 7


async def test_a_stream_with_its_options_is_read_by_the_client(play: Play) -> None:
    stream = await play.create(stream=True, stream_options={"include_usage": True})
    chunks = [chunk async for chunk in stream]
    assert chunks[-1].usage.prompt_tokens == 10
    assert "".join(c.choices[0].delta.content for c in chunks if c.choices) == "t0t1t2t3t4"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"stop": 4}, "stop"),
        ({"tools": 5}, "tools"),
        ({"tools": [5]}, "tools[0]"),
        ({"temperature": "hot"}, "temperature"),
        ({"n": -1}, "n"),
        ({"n": 0}, "n"),
        ({"messages": [5]}, "messages[0]"),
        ({"messages": {}}, "messages"),
        ({"messages": [{"role": "root", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"content": "x"}]}, "messages[0].role"),
        ({"stream": "yes"}, "stream"),
        ({"max_tokens": True}, "max_tokens"),
        ({"max_completion_tokens": 1.5}, "max_completion_tokens"),
        ({"response_format": 3}, "response_format"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
        ({"tool_choice": 1}, "tool_choice"),
        ({"logit_bias": []}, "logit_bias"),
        ({"seed": "x"}, "seed"),
        ({"user": 5}, "user"),
        ({"model": 5}, "model"),
    ],
)
async def test_a_wrong_type_is_the_clients_own_error_and_reaches_no_engine(
    play: Play, fields: dict[str, Any], param: str
) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        await play.create(extra_body=fields)
    assert (caught.value.status_code, caught.value.param) == (400, param)
    assert (caught.value.code, caught.value.type) == ("invalid_request", "invalid_request_error")
    assert not play.engine.seen
