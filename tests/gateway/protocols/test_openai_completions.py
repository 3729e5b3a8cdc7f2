from __future__ import annotations

from typing import Any

import orjson
import pytest

from gateway.protocols import openai_completions
from gateway.protocols.errors import Refused
from gateway.upstream.engines import ENGINES


def body(**fields: Any) -> bytes:
    return orjson.dumps({"model": "m", "prompt": "once"} | fields)


def sent(data: bytes, engine: Any = "vllm") -> dict[str, Any]:
    request = openai_completions.parse(data)
    cap = request.output_limit
    assert cap is not None
    document: dict[str, Any] = orjson.loads(
        openai_completions.payload(request, "real-model", cap, ENGINES[engine])
    )
    return document


@pytest.mark.parametrize(
    ("prompt", "answers"),
    [("a", 1), ("", 1), (["a", "b", "c"], 3), ([1, 2, 3], 1), ([[1, 2], [3]], 2)],
)
def test_each_prompt_is_one_answer_to_pay_for(prompt: Any, answers: int) -> None:
    assert openai_completions.parse(body(prompt=prompt)).choices == answers
    assert openai_completions.parse(body(prompt=prompt, n=3, best_of=5)).choices == 5 * answers


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"prompt": None}, "prompt"),
        ({"prompt": []}, "prompt"),
        ({"prompt": {"a": 1}}, "prompt"),
        ({"prompt": 7}, "prompt"),
        ({"prompt": [None]}, "prompt[0]"),
        ({"prompt": ["a", 1]}, "prompt[1]"),
        ({"prompt": [1, "a"]}, "prompt"),
        ({"prompt": [1, -1]}, "prompt"),
        ({"prompt": [True]}, "prompt[0]"),
        ({"prompt": [[1], []]}, "prompt[1]"),
        ({"prompt": [[1], ["a"]]}, "prompt[1]"),
        ({"prompt": ["a"] * 1025}, "prompt"),
        ({"prompt": ["a"] * 1000, "n": 2}, "n"),
        ({"logprobs": True}, "logprobs"),
        ({"echo": "yes"}, "echo"),
        ({"stop": [4]}, "stop[0]"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"stream_options": {}}, "stream_options"),
    ],
)
def test_a_wrong_parameter_is_refused_by_name(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(Refused) as caught:
        openai_completions.parse(body(**fields))
    assert (caught.value.code, caught.value.param) == ("invalid_request", param)


def test_no_limit_means_what_the_route_means() -> None:
    assert sent(body())["max_tokens"] == 16
    assert sent(body(max_tokens=90))["max_tokens"] == 90


def test_the_engine_gets_its_model_and_is_asked_for_usage_and_no_control_field() -> None:
    document = sent(body(stream=True, cache_salt="x", prompt_embeds="AAAA", logprobs=2, suffix="s"))
    assert document == {
        "model": "real-model",
        "prompt": "once",
        "stream": True,
        "logprobs": 2,
        "suffix": "s",
        "max_tokens": 16,
        "stream_options": {"include_usage": True},
    }


def test_a_provider_without_the_route_is_named() -> None:
    with pytest.raises(Refused) as caught:
        sent(body(), "anthropic")
    assert caught.value.code == "unsupported_dialect"
    assert "/v1/completions" in caught.value.message
