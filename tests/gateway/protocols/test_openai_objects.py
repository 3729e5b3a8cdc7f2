from __future__ import annotations

from typing import Any

import orjson
import pytest

from gateway.protocols import openai_chat
from gateway.protocols.errors import Refused
from gateway.protocols.inference import InferenceRequest

BASE = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
NO_ITEMS: list[Any] = [None, True, 0.5, []]
SCHEMA = {"type": "json_schema", "json_schema": {"name": "x", "schema": {}}}


def parsed(**fields: Any) -> InferenceRequest:
    return openai_chat.parse(orjson.dumps(BASE | fields))


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
