"""Field types of the OpenAI request schemas, as far as engines refuse them."""

from __future__ import annotations

from typing import NamedTuple, Self

from tests.fakes.engine.asks import Body

_INTEGERS = (
    "max_tokens",
    "max_completion_tokens",
    "n",
    "seed",
    "top_logprobs",
    "top_k",
    "priority",
)
_NUMBERS = ("temperature", "top_p", "presence_penalty", "frequency_penalty", "min_p")
_FLAGS = ("stream", "ignore_eos", "echo", "return_token_ids")
_TRUE_WORDS = frozenset({"true", "false", "1", "0", "yes", "no", "on", "off", "t", "f", "y", "n"})


class FieldFault(NamedTuple):
    """The first thing wrong with a body's fields."""

    field: str
    kind: str
    """The validator's own name for it."""
    message: str
    value: object

    @classmethod
    def missing(cls, field: str, body: Body) -> Self:
        return cls(field, "missing", "Field required", body)


def not_an_object(body: object) -> FieldFault:
    message = "Input should be a valid dictionary or object to extract fields from"
    return FieldFault("", "model_attributes_type", message, body)


def field_fault(
    body: Body, required: tuple[str, ...], fractions: tuple[str, ...] = ()
) -> FieldFault | None:
    """What a schema refuses; strings that read as numbers pass, as the engines' lax mode lets them."""
    for name in required:
        if name not in body:
            return FieldFault.missing(name, body)
    return _message_fault(body) or _type_fault(body, fractions)


def _message_fault(body: Body) -> FieldFault | None:
    messages = body.get("messages", [])
    if not isinstance(messages, list):
        return FieldFault("messages", "list_type", "Input should be a valid list", messages)
    for index, message in enumerate(messages):
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            return FieldFault(f"messages.{index}.role", "missing", "Field required", message)
    return None


def _type_fault(body: Body, fractions: tuple[str, ...]) -> FieldFault | None:
    for name in _INTEGERS:
        if name not in fractions and body.get(name) is not None and not _reads_as(int, body[name]):
            message = "Input should be a valid integer, unable to parse string as an integer"
            return FieldFault(name, "int_parsing", message, body[name])
    for name in (*_NUMBERS, *fractions):
        if body.get(name) is not None and not _reads_as(float, body[name]):
            message = "Input should be a valid number, unable to parse string as a number"
            return FieldFault(name, "float_parsing", message, body[name])
    for name in _FLAGS:
        value = body.get(name)
        if (
            value is not None
            and not isinstance(value, bool)
            and str(value).lower() not in _TRUE_WORDS
        ):
            message = "Input should be a valid boolean, unable to interpret input"
            return FieldFault(name, "bool_parsing", message, value)
    return None


def _reads_as(kind: type[int | float], value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return isinstance(value, bool)
    try:
        kind(value)
    except ValueError:
        return False
    return kind is float or float(value).is_integer()
