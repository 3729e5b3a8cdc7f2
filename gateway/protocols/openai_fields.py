"""Types of the parameters of chat completions. A wrong one is told here, in the caller's words, not by an engine.

Only types: what values a model takes is its engine's to say. Fields that are not listed pass as they are.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from gateway.protocols.errors import invalid


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
    "frequency_penalty": _NUMBER,
    "function_call": Kind((str, dict), "a string or an object"),
    "functions": _LIST,
    "logit_bias": _OBJECT,
    "logprobs": _FLAG,
    "metadata": _OBJECT,
    "min_p": _NUMBER,
    "modalities": _LIST,
    "parallel_tool_calls": _FLAG,
    "prediction": _OBJECT,
    "presence_penalty": _NUMBER,
    "prompt_cache_key": _TEXT,
    "reasoning_effort": _TEXT,
    "repetition_penalty": _NUMBER,
    "response_format": _OBJECT,
    "safety_identifier": _TEXT,
    "seed": _INTEGER,
    "service_tier": _TEXT,
    "stop": Kind((str, list), "a string or a list of strings"),
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
ITEMS: Final[dict[str, Kind]] = {
    "functions": _OBJECT,
    "modalities": _TEXT,
    "stop": _TEXT,
    "tools": _OBJECT,
}
"""Of the lists among them."""
_LISTS: Final = frozenset(ITEMS)


def check_fields(document: dict[str, Any]) -> None:
    """Raises Refused `invalid_request` with the parameter named. null is as good as absent."""
    for name, value in document.items():
        kind = KINDS.get(name)
        if kind is not None and value is not None and type(value) not in kind.types:
            raise invalid(name, f"'{name}' must be {kind.words}.")
    for name in _LISTS.intersection(document):
        _check_items(name, document[name])


def _check_items(name: str, value: Any) -> None:
    if type(value) is not list:
        return
    for index, item in enumerate(value):
        if type(item) not in ITEMS[name].types:
            param = f"{name}[{index}]"
            raise invalid(param, f"'{param}' must be {ITEMS[name].words}.")
