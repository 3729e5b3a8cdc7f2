"""`/v1/completions`: text or tokens in, text out, without roles. One request may carry many prompts."""

from __future__ import annotations

from typing import Any, Final

import orjson

from gateway.protocols import inference
from gateway.protocols.errors import invalid
from gateway.protocols.inference import Dialect, InferenceRequest
from gateway.protocols.json_body import read_object
from gateway.protocols.openai_chat import read_answer
from gateway.protocols.openai_fields import COMPLETIONS, check_fields
from gateway.upstream.engines.table import COMPLETIONS as ROUTE
from gateway.upstream.engines.table import Capabilities

DEFAULT_MAX_TOKENS: Final = 16
"""What the route means when no limit is named; an engine behind us might mean more."""
MAX_PROMPTS: Final = 1024


def parse(body: bytes) -> InferenceRequest:
    """Raises Refused `invalid_request` with the parameter named."""
    request = InferenceRequest(*read_object(body))
    document = request.document
    prompts = count_texts("prompt", document.get("prompt"))
    check_fields(document, COMPLETIONS)
    request.output_limit = inference.positive(document, "max_tokens") or DEFAULT_MAX_TOKENS
    request.choices = prompts * inference.choices_of(document)
    if request.choices > MAX_PROMPTS:
        raise invalid("n", f"More than {MAX_PROMPTS} answers in one request ('prompt' times 'n').")
    inference.read_streaming(request)
    return request


def count_texts(name: str, value: Any) -> int:
    """How many texts `value` is: a string, a list of strings, a list of tokens or a list of such. Raises Refused."""
    if type(value) is str:
        return 1
    if type(value) is not list or not value:
        raise invalid(name, f"'{name}' must be a string or a list that is not empty.")
    first = type(value[0])
    if first is int:
        _check_tokens(name, value)
        return 1
    if len(value) > MAX_PROMPTS:
        raise invalid(name, f"'{name}' must not have more than {MAX_PROMPTS} items.")
    for index, item in enumerate(value):
        if type(item) is not first or first not in (str, list):
            raise invalid(f"{name}[{index}]", f"'{name}' must be strings or lists of tokens.")
        if first is list:
            _check_tokens(f"{name}[{index}]", item)
    return len(value)


def _check_tokens(name: str, tokens: list[Any]) -> None:
    if not tokens or not all(type(token) is int and token >= 0 for token in tokens):
        raise invalid(name, f"'{name}' must be whole numbers from 0 up.")


def payload(
    request: InferenceRequest, upstream_model: str, cap: int, engine: Capabilities
) -> bytes:
    """The body for `engine`: its model name, at most `cap` output tokens a choice, usage asked for."""
    inference.need_route(ROUTE, engine)
    document = request.document
    inference.fit(document, engine)
    document["model"] = upstream_model
    document["max_tokens"] = cap
    inference.ask_for_usage(request, engine)
    return orjson.dumps(document)


DIALECT: Final = Dialect(ROUTE.encode(), parse, payload, read_answer)
