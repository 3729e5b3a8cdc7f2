"""A parameter of the wrong type is refused by its name; everything the official client can send passes."""

from __future__ import annotations

import typing
from typing import Any

import orjson
import pytest
from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming

from gateway.protocols import openai_chat
from gateway.protocols.errors import Refused
from gateway.protocols.inference import InferenceRequest
from gateway.protocols.openai_fields import KINDS

BASE = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
OBJECTS = {"logit_bias": {"50256": 1}}
SAMPLES: dict[type, Any] = {int: 3, float: 0.5, bool: True, str: "x", dict: None, list: []}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}


def parsed(**fields: Any) -> InferenceRequest:
    return openai_chat.parse(orjson.dumps(BASE | fields))


@pytest.mark.parametrize("name", sorted(KINDS))
def test_every_listed_type_and_null_pass_and_every_other_is_refused_by_name(name: str) -> None:
    samples = SAMPLES | {dict: OBJECTS.get(name, {"type": "text"})}
    for kind, sample in samples.items():
        if kind in KINDS[name].types:
            assert parsed(**{name: sample}).document[name] == sample
        else:
            with pytest.raises(Refused) as caught:
                parsed(**{name: sample})
            assert (caught.value.code, caught.value.param) == ("invalid_request", name)
            assert KINDS[name].words in caught.value.message
    parsed(**{name: None})


def test_the_official_client_names_no_parameter_that_is_read_otherwise_here() -> None:
    """What its typed signature allows, in one request."""
    fields: dict[str, Any] = {
        "frequency_penalty": 1,
        "logit_bias": {"50256": -100},
        "logprobs": True,
        "top_logprobs": 2,
        "metadata": {"a": "b"},
        "modalities": ["text"],
        "n": 2,
        "parallel_tool_calls": False,
        "prediction": {"type": "content", "content": "x"},
        "presence_penalty": -0.5,
        "reasoning_effort": "low",
        "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {}}},
        "seed": 7,
        "service_tier": "auto",
        "stop": ["a", "b"],
        "store": False,
        "temperature": 0,
        "tool_choice": {"type": "function", "function": {"name": "f"}},
        "tools": [TOOL],
        "top_p": 1,
        "user": "u",
        "verbosity": "low",
        "web_search_options": {},
        "audio": {"format": "wav", "voice": "x"},
    }
    assert parsed(**fields).document.items() >= fields.items()
    assert parsed(stop="x").document["stop"] == "x"
    assert parsed(tool_choice="none").document["tool_choice"] == "none"
    named = set(typing.get_type_hints(CompletionCreateParamsNonStreaming))
    own = {
        "model",
        "messages",
        "max_tokens",
        "max_completion_tokens",
        "n",
        "stream",
        "stream_options",
    }
    unknown = named - KINDS.keys() - own
    assert unknown == {"moderation", "prompt_cache_options", "prompt_cache_retention"} & unknown, (
        "a parameter of the official client that has no type here"
    )


def test_what_is_not_listed_passes_as_it_is() -> None:
    assert parsed(some_new_thing=[1, {"a": None}]).document["some_new_thing"] == [1, {"a": None}]
