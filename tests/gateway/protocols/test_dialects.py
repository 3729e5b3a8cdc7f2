"""What must hold for every route, whichever is added next."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from gateway.pipeline.door import HOT_ROUTES
from gateway.protocols.control_fields import CONTROL_FIELDS
from gateway.protocols.dialects import DIALECTS
from gateway.protocols.errors import Refused
from gateway.protocols.inference import Dialect
from gateway.upstream.engines import ENGINES

ASKS: dict[bytes, dict[str, Any]] = {
    b"/v1/chat/completions": {"messages": [{"role": "user", "content": "hi"}]},
    b"/v1/completions": {"prompt": "hi"},
    b"/v1/embeddings": {"input": "hi"},
}
each = pytest.mark.parametrize("dialect", DIALECTS.values(), ids=lambda one: one.route.decode())


def ask(dialect: Dialect, **fields: Any) -> bytes:
    return orjson.dumps({"model": "m"} | ASKS[dialect.route] | fields)


def test_every_dialect_is_a_hot_route_and_is_asked_below() -> None:
    assert HOT_ROUTES == DIALECTS.keys() == ASKS.keys()


@each
def test_no_control_field_passes_at_any_depth(dialect: Dialect) -> None:
    fields = dict.fromkeys(CONTROL_FIELDS - {"region"}, "x")
    request = dialect.parse(ask(dialect, **fields, extra={"deep": [fields]}))
    assert set(request.stripped) == fields.keys()
    sent = orjson.loads(dialect.payload(request, "real", 5, ENGINES["vllm"]))
    assert sent["model"] == "real"
    assert sent["extra"] == {"deep": [{}]}
    assert not CONTROL_FIELDS.intersection(sent)


@each
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{",
        b'{"model": NaN}',
        b'{"model":"m","model":"n","prompt":"a","input":"a","messages":[]}',
        b'{"model":"m"}',
        b'{"prompt":"a","input":"a","messages":[{"role":"user","content":"a"}]}',
        b'{"a":' * 100 + b"1" + b"}" * 100,
    ],
)
def test_what_is_no_request_is_refused_alike(dialect: Dialect, body: bytes) -> None:
    with pytest.raises(Refused) as caught:
        dialect.parse(body)
    assert (caught.value.code, caught.value.status) == ("invalid_request", 400)


@each
def test_an_engine_without_the_route_is_not_asked(dialect: Dialect) -> None:
    with pytest.raises(Refused) as caught:
        dialect.payload(dialect.parse(ask(dialect)), "real", 5, ENGINES["anthropic"])
    assert (caught.value.code, caught.value.param) == ("unsupported_dialect", "model")


@each
@pytest.mark.parametrize("body", [b"", b"[]", b"null", b'{"error":{"message":"x"}}', b"\xff"])
def test_an_answer_that_is_none_is_not_passed_on(dialect: Dialect, body: bytes) -> None:
    with pytest.raises(Refused) as caught:
        dialect.read_answer(body)
    assert caught.value.code == "upstream_bad_response"


@each
def test_parameters_an_engine_lacks_are_refused_by_name(dialect: Dialect) -> None:
    request = dialect.parse(ask(dialect, min_p=0.5))
    with pytest.raises(Refused) as caught:
        dialect.payload(request, "real", 5, ENGINES["openai"])
    assert (caught.value.code, caught.value.param) == ("unsupported_parameter", "min_p")
