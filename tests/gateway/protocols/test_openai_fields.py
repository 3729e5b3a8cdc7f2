"""A parameter of the wrong type is refused by its name; everything the official client can send passes."""

from __future__ import annotations

import typing
from typing import Any

import orjson
import pytest
from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming

from gateway.protocols import openai_chat
from gateway.protocols.errors import Refused
from gateway.protocols.openai_fields import KINDS

BASE = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
OBJECTS = {"logit_bias": {"50256": 1}}
SAMPLES: dict[type, Any] = {int: 3, float: 0.5, bool: True, str: "x", dict: None, list: []}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}


def parsed(**fields: Any) -> openai_chat.ChatRequest:
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


NO_ITEMS: list[Any] = [None, True, 0.5, []]
SCHEMA = {"type": "json_schema", "json_schema": {"name": "x", "schema": {}}}


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        *(
            ({name: [item]}, f"{name}[0]")
            for name in ("functions", "modalities", "stop", "stop_token_ids", "tools")
            for item in NO_ITEMS
        ),
        ({"stop": ["a", 4]}, "stop[1]"),
        ({"tools": [TOOL, {"type": "function"}]}, "tools[1].function"),
        ({"tools": [{"type": 4, "function": {"name": "f"}}]}, "tools[0].type"),
        ({"tools": [{"type": "function", "function": "f"}]}, "tools[0].function"),
        ({"tools": [{"type": "function", "function": {}}]}, "tools[0].function.name"),
        (
            {"tools": [{"function": {"name": "f", "description": 4}}]},
            "tools[0].function.description",
        ),
        (
            {"tools": [{"function": {"name": "f", "parameters": "{}"}}]},
            "tools[0].function.parameters",
        ),
        ({"functions": [{"name": 4}]}, "functions[0].name"),
        ({"functions": [{"name": "f", "parameters": []}]}, "functions[0].parameters"),
        ({"tool_choice": {"type": "function", "function": 4}}, "tool_choice.function"),
        ({"tool_choice": {"type": "function", "function": {}}}, "tool_choice.function.name"),
        ({"logit_bias": {"50256": "high"}}, "logit_bias"),
        ({"logit_bias": {"50256": True}}, "logit_bias"),
        ({"response_format": {}}, "response_format.type"),
        ({"response_format": {"type": 3}}, "response_format.type"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"schema": 3}}},
            "response_format.json_schema.schema",
        ),
        ({"prediction": {"content": "x"}}, "prediction.type"),
    ],
)
def test_what_stands_inside_is_refused_by_its_place(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(Refused) as caught:
        parsed(**fields)
    assert (caught.value.code, caught.value.param) == ("invalid_request", param)


@pytest.mark.parametrize(
    "fields",
    [
        {"tools": []},
        {"tools": [TOOL, {"function": {"name": "f"}}, {"type": "web_search"}]},
        {"tools": [{"type": "custom", "custom": {"name": "f", "format": {"type": "text"}}}]},
        {"tool_choice": {"type": "custom", "custom": {"name": "f"}}},
        {"tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": []}}},
        {"functions": [{"name": "f", "parameters": None}]},
        {"response_format": {"type": "text"}},
        {"response_format": {"type": "json_object"}},
        {"response_format": SCHEMA},
        {"response_format": {"type": "structural_tag", "structures": []}},
        {"logit_bias": {}},
        {"stop": []},
    ],
)
def test_forms_that_clients_send_pass_as_they_are(fields: dict[str, Any]) -> None:
    assert parsed(**fields).document.items() >= fields.items()


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
