from __future__ import annotations

from typing import Any

import orjson
import pytest

from gateway.protocols import openai_embeddings
from gateway.protocols.errors import Refused
from gateway.upstream.engines import ENGINES


def body(**fields: Any) -> bytes:
    return orjson.dumps({"model": "m", "input": "a text"} | fields)


def test_only_the_input_costs() -> None:
    request = openai_embeddings.parse(body(dimensions=64, encoding_format="base64"))
    assert (request.choices, request.stream) == (0, False)
    document = orjson.loads(openai_embeddings.payload(request, "real-model", 5, ENGINES["vllm"]))
    assert document == {
        "model": "real-model",
        "input": "a text",
        "dimensions": 64,
        "encoding_format": "base64",
    }


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"input": None}, "input"),
        ({"input": []}, "input"),
        ({"input": [{}]}, "input[0]"),
        ({"dimensions": 0}, "dimensions"),
        ({"encoding_format": 1}, "encoding_format"),
        ({"stream": True}, "stream"),
    ],
)
def test_a_wrong_parameter_is_refused_by_name(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(Refused) as caught:
        openai_embeddings.parse(body(**fields))
    assert (caught.value.code, caught.value.param) == ("invalid_request", param)


def test_an_answer_has_vectors_and_says_what_was_read() -> None:
    vectors = {"object": "list", "data": [{"embedding": [0.5]}], "usage": {"prompt_tokens": 3}}
    answer = openai_embeddings.read_answer(orjson.dumps(vectors))
    assert answer.usage == (3, 0, 0)
    for wrong in (b"{}", b"[]", b'{"choices": []}', b'{"data": [], "error": {"message": "x"}}'):
        with pytest.raises(Refused):
            openai_embeddings.read_answer(wrong)
