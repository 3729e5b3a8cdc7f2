"""Types of the parameters of chat completions. A wrong one is told here, in the caller's words, not by an engine.

Only types: what values a model takes is its engine's to say. Fields that are not listed pass as they are.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from gateway.protocols.errors import invalid
from gateway.protocols.openai_objects import INSIDE


class Kind(NamedTuple):
    types: tuple[type, ...]
    """Exact types as the JSON parser makes them: true is no number."""
    words: str


_NUMBER: Final = Kind((int, float), "a number")
_INTEGER: Final = Kind((int,), "a whole number")
_FLAG: Final = Kind((bool,), "true or false")
_TEXT: Final = Kind((str,), "a string")
_OBJECT: Final = Kind((dict,), "an object")
_LIST: Final = Kind((list,), "a list")

KINDS: Final[dict[str, Kind]] = {
    "audio": _OBJECT,
    "chat_template_kwargs": _OBJECT,
    "continue_final_message": _FLAG,
    "frequency_penalty": _NUMBER,
    "function_call": Kind((str, dict), "a string or an object"),
    "functions": _LIST,
    "ignore_eos": _FLAG,
    "include_stop_str_in_output": _FLAG,
    "length_penalty": _NUMBER,
    "logit_bias": _OBJECT,
    "logprobs": _FLAG,
    "metadata": _OBJECT,
    "min_p": _NUMBER,
    "min_tokens": _INTEGER,
    "modalities": _LIST,
    "parallel_tool_calls": _FLAG,
    "prediction": _OBJECT,
    "presence_penalty": _NUMBER,
    "prompt_cache_key": _TEXT,
    "prompt_cache_retention": _TEXT,
    "prompt_logprobs": _INTEGER,
    "reasoning_effort": _TEXT,
    "repetition_penalty": _NUMBER,
    "response_format": _OBJECT,
    "safety_identifier": _TEXT,
    "seed": _INTEGER,
    "service_tier": _TEXT,
    "skip_special_tokens": _FLAG,
    "stop": Kind((str, list), "a string or a list of strings"),
    "stop_token_ids": _LIST,
    "store": _FLAG,
    "temperature": _NUMBER,
    "tool_choice": Kind((str, dict), "a string or an object"),
    "tools": _LIST,
    "top_k": _INTEGER,
    "top_logprobs": _INTEGER,
    "top_p": _NUMBER,
    "user": _TEXT,
    "verbosity": _TEXT,
    "web_search_options": _OBJECT,
}


class Fields:
    """The fields of one route, ready to be looked up."""

    __slots__ = ("kinds", "types")

    def __init__(self, kinds: dict[str, Kind]) -> None:
        self.kinds = kinds
        self.types = {name: frozenset((*kind.types, type(None))) for name, kind in kinds.items()}


CHAT: Final = Fields(KINDS)
_TEXT_ROUTE: Final = (
    "frequency_penalty", "ignore_eos", "include_stop_str_in_output", "length_penalty", "logit_bias",
    "min_p", "min_tokens", "presence_penalty", "prompt_logprobs", "repetition_penalty",
    "response_format", "seed", "skip_special_tokens", "stop", "stop_token_ids", "temperature",
    "top_k", "top_p", "user",
)  # fmt: skip
COMPLETIONS: Final = Fields(
    {name: KINDS[name] for name in _TEXT_ROUTE}
    | {"echo": _FLAG, "logprobs": _INTEGER, "suffix": _TEXT}
)
EMBEDDINGS: Final = Fields({"encoding_format": _TEXT, "user": _TEXT})


def check_fields(document: dict[str, Any], fields: Fields = CHAT) -> None:
    """Raises Refused `invalid_request` with the parameter named. null is as good as absent."""
    for name, value in document.items():
        types = fields.types.get(name)
        if types is None:
            continue
        kind = type(value)
        if kind not in types:
            raise invalid(name, f"'{name}' must be {fields.kinds[name].words}.")
        if (kind is list or kind is dict) and (look := INSIDE.get(name)) is not None:
            look(name, value)
