"""What the pipeline knows of a request and an answer, whatever OpenAI route they came by, and how fields are read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from gateway.protocols.errors import Refused, invalid
from gateway.protocols.usage import TokenUsage
from gateway.upstream.engines.table import Capabilities

MAX_COUNT: Final = 2**31 - 1
"""Of anything a caller may count: what is held and recorded for it must fit the 64 bits of the wire and the ledger."""
MAX_CHOICES: Final = 128
MAX_MODEL_CHARS: Final = 200
_COUNT_FIELDS: Final = frozenset(("n", "best_of"))


class InferenceRequest:
    """One parsed request. `document` may be changed by request filters until `Dialect.payload` is called."""

    __slots__ = (
        "choices",
        "document",
        "media_tokens",
        "model",
        "output_limit",
        "stream",
        "stripped",
        "wants_usage",
    )

    def __init__(self, document: dict[str, Any], stripped: tuple[str, ...]) -> None:
        self.document = document
        self.stripped = stripped
        """Names of the control fields that were removed."""
        self.model = model_of(document)
        self.media_tokens = 0
        """Input tokens that images, clips and files may become beside the text."""
        self.output_limit: int | None = None
        """Most output tokens of one choice the client asked for; None: it named no limit."""
        self.choices = 1
        """How many answers are generated: the output bound is this many times the cap. 0: the route generates none."""
        self.stream = False
        self.wants_usage = False
        """Whether the client itself asked for the usage event of a stream."""


class Answer(NamedTuple):
    """`usage` None: the engine reported none, which is not zero."""

    usage: TokenUsage | None
    choices: int


class Dialect(NamedTuple):
    """One route of the gateway and of the engines behind it."""

    route: bytes
    parse: Callable[[bytes], InferenceRequest]
    """Raises Refused `invalid_request` with the parameter named."""
    payload: Callable[[InferenceRequest, str, int, Capabilities], bytes]
    """(request, the engine's model name, most output tokens of a choice, engine) -> body for the engine.

    Raises Refused for what the engine does not have."""
    read_answer: Callable[[bytes], Answer]
    """Facts of an answer with status 200. Raises Refused `upstream_bad_response` when it is none."""


def need_route(route: str, engine: Capabilities) -> None:
    """Raises Refused when the engine has no such route."""
    if route not in engine.routes:
        raise Refused(
            "unsupported_dialect",
            f"This model is served by a provider of kind '{engine.name}', which has no {route}.",
            param="model",
        )


def fit(document: dict[str, Any], engine: Capabilities) -> None:
    """Take out what the engine would stumble over; refuse what it would silently lose."""
    if not engine.refused.isdisjoint(document):
        name = min(engine.refused.intersection(document))
        if document[name] is not None:
            raise Refused(
                "unsupported_parameter",
                f"'{name}' is not supported for this model (engine '{engine.name}').",
                param=name,
            )
        del document[name]
        fit(document, engine)
    if not engine.dropped.isdisjoint(document):
        for name in engine.dropped.intersection(document):
            del document[name]


def ask_for_usage(request: InferenceRequest, engine: Capabilities) -> None:
    if request.stream and engine.stream_usage:
        options = request.document.get("stream_options") or {}
        request.document["stream_options"] = {**options, "include_usage": True}


def read_streaming(request: InferenceRequest) -> None:
    """`stream` and `stream_options`. Raises Refused."""
    document = request.document
    request.stream = flag(document, "stream")
    request.wants_usage = request.stream and _wants_usage(document)
    if not request.stream and document.get("stream_options") is not None:
        raise invalid("stream_options", "'stream_options' is only allowed with 'stream': true.")


def model_of(document: dict[str, Any]) -> str:
    model = document.get("model")
    if type(model) is not str or not model:
        raise invalid("model", "'model' must be a non-empty string.")
    if len(model) > MAX_MODEL_CHARS:
        raise invalid("model", f"'model' is longer than {MAX_MODEL_CHARS} characters.")
    return model


def smallest_limit(document: dict[str, Any], names: tuple[str, ...]) -> int | None:
    limit: int | None = None
    for name in names:
        value = positive(document, name)
        if value is not None:
            limit = value if limit is None or value < limit else limit
    return limit


def choices_of(document: dict[str, Any]) -> int:
    """`best_of` generates as many as it names and shows `n` of them: all are paid for."""
    count = 1
    for name in _COUNT_FIELDS.intersection(document):
        value = positive(document, name) or 1
        if value > MAX_CHOICES:
            raise invalid(name, f"'{name}' must be at most {MAX_CHOICES}.")
        count = max(count, value)
    return count


def positive(document: dict[str, Any], name: str) -> int | None:
    value = document.get(name)
    if value is None:
        return None
    if type(value) is not int or value < 1:
        raise invalid(name, f"'{name}' must be a whole number of at least 1.")
    if value > MAX_COUNT:
        raise invalid(name, f"'{name}' must be at most {MAX_COUNT}.")
    return value


def flag(document: dict[str, Any], name: str) -> bool:
    value = document.get(name)
    if value is not None and type(value) is not bool:
        raise invalid(name, f"'{name}' must be true or false.")
    return value is True


def _wants_usage(document: dict[str, Any]) -> bool:
    options = document.get("stream_options")
    if options is None:
        return False
    if type(options) is not dict:
        raise invalid("stream_options", "'stream_options' must be an object.")
    value = options.get("include_usage")
    if value is not None and type(value) is not bool:
        raise invalid("stream_options.include_usage", "'include_usage' must be true or false.")
    return value is True
