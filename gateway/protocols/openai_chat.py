"""`/v1/chat/completions`: reading a request, writing the one for the engine, reading the answer.

The request is parsed once and always sent on in our own serialisation, so that no parser behind us can read it
differently. Fields we do not know pass through; control fields never do (`control_fields`).
"""

from __future__ import annotations

from typing import Final

import orjson

from gateway.protocols import inference
from gateway.protocols.chat_messages import check_messages
from gateway.protocols.errors import Refused
from gateway.protocols.inference import Answer, Dialect, InferenceRequest
from gateway.protocols.json_body import read_object
from gateway.protocols.openai_fields import check_fields
from gateway.protocols.usage import view_answer
from gateway.upstream.engines.table import CHAT, Capabilities

_CAP_FIELDS: Final = ("max_tokens", "max_completion_tokens")


def parse(body: bytes) -> InferenceRequest:
    """Raises Refused `invalid_request` with the parameter named."""
    request = InferenceRequest(*read_object(body))
    document = request.document
    request.media_tokens = check_messages(document.get("messages"))
    check_fields(document)
    request.output_limit = inference.smallest_limit(document, _CAP_FIELDS)
    request.choices = inference.choices_of(document)
    inference.read_streaming(request)
    return request


def payload(
    request: InferenceRequest, upstream_model: str, cap: int, engine: Capabilities
) -> bytes:
    """The body for `engine`: its model name, at most `cap` output tokens a choice, usage asked for."""
    inference.need_route(CHAT, engine)
    document = request.document
    inference.fit(document, engine)
    document["model"] = upstream_model
    for name in _CAP_FIELDS:
        document.pop(name, None)
    document[engine.output_cap_field] = cap
    inference.ask_for_usage(request, engine)
    return orjson.dumps(document)


def read_answer(body: bytes) -> Answer:
    """Raises Refused `upstream_bad_response` when it is no answer."""
    view = view_answer(body)
    if view is None or view.choices is None or view.error is not None:
        raise Refused("upstream_bad_response")
    return Answer(view.token_usage(), len(view.choices))


DIALECT: Final = Dialect(CHAT.encode(), parse, payload, read_answer)
