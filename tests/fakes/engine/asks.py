"""What a client asked for, read once, and the errors the engines answer with.

The dialects decide which errors there are; this module only knows what an inference request consists of.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from tests.fakes.engine.http import Header

Route = Literal["chat", "completion"]
Body = dict[str, Any]


class EngineError(Exception):
    """An error in an engine's own words, ready to be sent."""

    def __init__(self, status: int, body: object, headers: tuple[Header, ...] = ()) -> None:
        super().__init__(status, body)
        self.status = status
        self.body = body
        self.headers = headers


class Ask(msgspec.Struct, kw_only=True):
    """One accepted inference request."""

    route: Route
    model: str
    adapter: str | None
    """Name of the LoRA adapter that serves it."""
    prompts: list[list[int]]
    """Token ids; several for a completion batch."""
    echo_texts: list[str]
    """What `echo` puts in front of each answer; empty strings without it."""
    max_tokens: int | None
    """None: until the answer ends by itself or the context is full."""
    stream: bool
    include_usage: bool
    continuous_usage: bool
    choices: int
    stop: tuple[str, ...]
    seed: int
    ignore_eos: bool
    salt: str
    top_logprobs: int | None
    """None: no logprobs."""
    return_token_ids: bool
    tool: str | None
    """Name of the function the answer must call."""


def text_of(content: object) -> str:
    """The text of a message's content, whichever of its forms it has."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        parts = [part.get("text", "") for part in content if isinstance(part, dict)]
        return "".join(part for part in parts if isinstance(part, str))
    return ""


def stops_of(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    return tuple(v for v in value if isinstance(v, str)) if isinstance(value, list) else ()


def tool_of(body: Body) -> str | None:
    """The function a request forces the model to call: a named one, or the first when one is required."""
    choice = body.get("tool_choice")
    if isinstance(choice, dict):
        name = choice.get("function", {}).get("name")
        return name if isinstance(name, str) else None
    tools = body.get("tools")
    if choice == "required" and isinstance(tools, list) and tools:
        name = tools[0].get("function", {}).get("name")
        return name if isinstance(name, str) else None
    return None
