"""`/v1/embeddings`: texts or tokens in, vectors out. Nothing is generated, so only the input costs."""

from __future__ import annotations

from typing import Final

import orjson

from gateway.protocols import inference
from gateway.protocols.errors import Refused, invalid
from gateway.protocols.inference import Answer, Dialect, InferenceRequest
from gateway.protocols.json_body import read_object
from gateway.protocols.openai_completions import count_texts
from gateway.protocols.openai_fields import EMBEDDINGS, check_fields
from gateway.protocols.usage import view_answer
from gateway.upstream.engines.table import EMBEDDINGS as ROUTE
from gateway.upstream.engines.table import Capabilities


def parse(body: bytes) -> InferenceRequest:
    """Raises Refused `invalid_request` with the parameter named."""
    request = InferenceRequest(*read_object(body))
    document = request.document
    count_texts("input", document.get("input"))
    check_fields(document, EMBEDDINGS)
    inference.positive(document, "dimensions")
    if document.get("stream"):
        raise invalid("stream", "Embeddings are not streamed.")
    request.choices = 0
    return request


def payload(
    request: InferenceRequest, upstream_model: str, _cap: int, engine: Capabilities
) -> bytes:
    """The body for `engine`, under its model name."""
    inference.need_route(ROUTE, engine)
    inference.fit(request.document, engine)
    request.document["model"] = upstream_model
    return orjson.dumps(request.document)


def read_answer(body: bytes) -> Answer:
    """Raises Refused `upstream_bad_response` when it is no answer."""
    view = view_answer(body)
    if view is None or view.data is None or view.error is not None:
        raise Refused("upstream_bad_response")
    return Answer(view.token_usage(), 0)


DIALECT: Final = Dialect(ROUTE.encode(), parse, payload, read_answer)
