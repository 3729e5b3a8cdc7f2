"""`/v1/chat/completions`: reading a request, writing the one for the engine, reading the answer.

The request is parsed once and always sent on in our own serialisation, so that no parser behind us can read it
differently. Fields we do not know pass through; control fields never do (`control_fields`).
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import orjson

from gateway.protocols.chat_messages import check_messages
from gateway.protocols.errors import Refused, invalid
from gateway.protocols.json_body import read_object
from gateway.protocols.openai_fields import check_fields
from gateway.protocols.usage import TokenUsage, view_answer
from gateway.upstream.engines.table import Capabilities

ROUTE: Final = b"/v1/chat/completions"
MAX_COUNT: Final = 2**31 - 1
"""Of anything a caller may count: what is held and recorded for it must fit the 64 bits of the wire and the ledger."""
MAX_CHOICES: Final = 128
MAX_MODEL_CHARS: Final = 200
_CAP_FIELDS: Final = ("max_tokens", "max_completion_tokens")
_COUNT_FIELDS: Final = frozenset(("n", "best_of"))


class ChatRequest:
    """One parsed request. `document` may be changed by request filters until `payload` is called."""

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
        self.model = _model(document)
        self.media_tokens = check_messages(document.get("messages"))
        """Input tokens that images, clips and files may become beside the text."""
        check_fields(document)
        self.output_limit = _output_limit(document)
        """Most output tokens of one choice the client asked for; None: it named no limit."""
        self.choices = _choices(document)
        """How many answers are generated: the output bound is this many times the cap."""
        self.stream = _flag(document, "stream")
        self.wants_usage = self.stream and _wants_usage(document)
        """Whether the client itself asked for the usage event of a stream."""
        if not self.stream and document.get("stream_options") is not None:
            raise invalid("stream_options", "'stream_options' is only allowed with 'stream': true.")


def parse(body: bytes) -> ChatRequest:
    """Raises Refused `invalid_request` with the parameter named."""
    return ChatRequest(*read_object(body))


def payload(request: ChatRequest, upstream_model: str, cap: int, engine: Capabilities) -> bytes:
    """The body for `engine`: its model name, at most `cap` output tokens a choice, usage asked for.

    Raises Refused when the request needs what the engine does not have.
    """
    if not engine.speaks_chat:
        raise Refused(
            "unsupported_dialect",
            f"This model is served by a provider of kind '{engine.name}', which has no chat completions.",
            param="model",
        )
    document = request.document
    _fit(document, engine)
    document["model"] = upstream_model
    for name in _CAP_FIELDS:
        document.pop(name, None)
    document[engine.output_cap_field] = cap
    if request.stream and engine.stream_usage:
        options = document.get("stream_options") or {}
        document["stream_options"] = {**options, "include_usage": True}
    return orjson.dumps(document)


class Answer(NamedTuple):
    """`usage` None: the engine reported none, which is not zero."""

    usage: TokenUsage | None
    choices: int


def read_answer(body: bytes) -> Answer:
    """Facts of an answer with status 200. Raises Refused `upstream_bad_response` when it is none."""
    view = view_answer(body)
    if view is None or view.choices is None or view.error is not None:
        raise Refused("upstream_bad_response")
    return Answer(view.token_usage(), len(view.choices))


def _fit(document: dict[str, Any], engine: Capabilities) -> None:
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
        _fit(document, engine)
    if not engine.dropped.isdisjoint(document):
        for name in engine.dropped.intersection(document):
            del document[name]


def _model(document: dict[str, Any]) -> str:
    model = document.get("model")
    if type(model) is not str or not model:
        raise invalid("model", "'model' must be a non-empty string.")
    if len(model) > MAX_MODEL_CHARS:
        raise invalid("model", f"'model' is longer than {MAX_MODEL_CHARS} characters.")
    return model


def _output_limit(document: dict[str, Any]) -> int | None:
    limit: int | None = None
    for name in _CAP_FIELDS:
        value = _positive(document, name)
        if value is not None:
            limit = value if limit is None or value < limit else limit
    return limit


def _choices(document: dict[str, Any]) -> int:
    """`best_of` generates as many as it names and shows `n` of them: all are paid for."""
    count = 1
    for name in _COUNT_FIELDS.intersection(document):
        value = _positive(document, name) or 1
        if value > MAX_CHOICES:
            raise invalid(name, f"'{name}' must be at most {MAX_CHOICES}.")
        count = max(count, value)
    return count


def _positive(document: dict[str, Any], name: str) -> int | None:
    value = document.get(name)
    if value is None:
        return None
    if type(value) is not int or value < 1:
        raise invalid(name, f"'{name}' must be a whole number of at least 1.")
    if value > MAX_COUNT:
        raise invalid(name, f"'{name}' must be at most {MAX_COUNT}.")
    return value


def _flag(document: dict[str, Any], name: str) -> bool:
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
