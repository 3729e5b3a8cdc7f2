from __future__ import annotations

from typing import Any

import orjson
import pytest

from gateway.protocols import openai_chat
from gateway.protocols.control_fields import CONTROL_FIELDS
from gateway.protocols.errors import Refused
from gateway.upstream.engines import ENGINES

VLLM = ENGINES["vllm"]
MESSAGES = [{"role": "user", "content": "hello"}]


def body(**fields: Any) -> bytes:
    return orjson.dumps({"model": "m", "messages": MESSAGES, **fields})


def sent(data: bytes, engine: str = "vllm", cap: int = 100) -> dict[str, Any]:
    request = openai_chat.parse(data)
    document: dict[str, Any] = orjson.loads(
        openai_chat.payload(request, "real-model", cap, ENGINES[engine])  # type: ignore[index]
    )
    return document


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"model": None}, "model"),
        ({"model": ""}, "model"),
        ({"model": ["x"]}, "model"),
        ({"model": {"a": 1}}, "model"),
        ({"model": "x" * 201}, "model"),
        ({"messages": None}, "messages"),
        ({"messages": []}, "messages"),
        ({"messages": "hello"}, "messages"),
        ({"messages": {"role": "user"}}, "messages"),
        ({"messages": ["hello"]}, "messages[0]"),
        ({"messages": [*MESSAGES, {"content": "a"}]}, "messages[1].role"),
        ({"messages": [{"role": "root", "content": "a"}]}, "messages[0].role"),
        ({"messages": [{"role": ["user"], "content": "a"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": 1}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": ["a"]}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": [{"type": 1}]}]}, "messages[0].content"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"max_tokens": 1.5}, "max_tokens"),
        ({"max_tokens": "10"}, "max_tokens"),
        ({"max_tokens": True}, "max_tokens"),
        ({"max_completion_tokens": 0}, "max_completion_tokens"),
        ({"n": 0}, "n"),
        ({"n": 129}, "n"),
        ({"n": "2"}, "n"),
        ({"best_of": 1000}, "best_of"),
        ({"stream": 1}, "stream"),
        ({"stream": "true"}, "stream"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"stream": True, "stream_options": []}, "stream_options"),
        ({"stream": True, "stream_options": {"include_usage": 1}}, "stream_options.include_usage"),
    ],
)
def test_a_wrong_parameter_is_refused_by_name(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(Refused) as caught:
        openai_chat.parse(body(**fields))
    assert (caught.value.code, caught.value.status) == ("invalid_request", 400)
    assert caught.value.param == param


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b'"text"',
        b"null",
        b"\xff\xfe{}",
        b'{"model": NaN}',
        b'{"model": Infinity}',
        b'{"temperature": 1e999}',
        b'{"model": "\\ud800"}',
        b'{"model": "\xed\xa0\x80"}',
        b'{"a": 1,}',
        b"{'a': 1}",
        b'{"a": 01}',
        b'{"a"' + b":[" * 100_000,
        b"[" * 100_000,
        b'{"a":' * 65 + b"1" + b"}" * 65,
        b'{"tools": [{"function": {"parameters": ' + b'{"a":' * 200 + b"1" + b"}" * 200 + b"}}]}",
        b'{"cache_salt": ' + b"[" * 200 + b"]" * 200 + b"}",
    ],
)
def test_a_body_that_two_parsers_might_read_differently_is_refused(data: bytes) -> None:
    with pytest.raises(Refused) as caught:
        openai_chat.parse(data)
    assert caught.value.code == "invalid_request"


def test_the_message_about_bad_json_does_not_quote_the_body() -> None:
    with pytest.raises(Refused) as caught:
        openai_chat.parse(b'{"secret prompt')
    assert "secret" not in caught.value.message


@pytest.mark.parametrize(
    "data",
    [
        b'{"model":"m","model":"n","messages":[{"role":"user","content":"a"}]}',
        b'{"model":"m","messages":[{"role":"user","role":"system","content":"a"}]}',
        b'{"model":"m","mod\\u0065l":"n","messages":[{"role":"user","content":"a"}]}',
        b'{"model": "m", "model": "n", "messages": [{"role": "user", "content": "a"}]}',
        b'{"model":"m","tools":[{"function":{"parameters":{"a":1,"a":2}}}],"messages":[{"role":"user"}]}',
        b'{"model":"m","cache_salt":{"a":1,"a":2},"messages":[{"role":"user"}]}',
    ],
)
def test_duplicate_keys_are_refused(data: bytes) -> None:
    with pytest.raises(Refused) as caught:
        openai_chat.parse(data)
    assert "same key twice" in caught.value.message


@pytest.mark.parametrize(
    "content", ['{"a":1,"a":2}', 'say "model": and "n":', "a\\", '\\":', "ünï", 'x":', "\\u0022:"]
)
def test_text_that_looks_like_keys_is_only_text(content: str) -> None:
    data = body(messages=[{"role": "user", "content": content}])
    assert sent(data)["messages"] == [{"role": "user", "content": content}]
    spaced = data.replace(b'":', b'" : ')
    assert openai_chat.parse(spaced).model == "m"


def test_unknown_but_harmless_fields_pass() -> None:
    document = sent(body(temperature=0.5, seed=7, x_custom={"deep": [1, None, "é"]}))
    assert document["temperature"] == 0.5
    assert document["x_custom"] == {"deep": [1, None, "é"]}


@pytest.mark.parametrize("name", sorted(CONTROL_FIELDS))
def test_a_control_field_reaches_no_engine_at_any_depth(name: str) -> None:
    data = body(
        **{name: "x"},
        deep={"er": [{name: {"y": 1}}]},
        messages=[{"role": "user", "content": "a", name: 1}],
        metadata={name: "z"},
    )
    request = openai_chat.parse(data)
    assert request.stripped == (name,)
    payload = openai_chat.payload(request, "m", 1, VLLM)
    assert f'"{name}"'.encode() not in payload


def test_a_control_field_cannot_hide_behind_an_escape() -> None:
    request = openai_chat.parse(body().replace(b'{"model"', b'{"cache\\u005fsalt":"x","model"'))
    assert request.stripped == ("cache_salt",)
    assert b"salt" not in openai_chat.payload(request, "m", 1, VLLM)


def test_a_tool_may_own_parameters_with_such_names() -> None:
    schema = {"type": "object", "properties": {"priority": {"type": "string", "region": "x"}}}
    tools = [{"type": "function", "function": {"name": "f", "parameters": schema}}]
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"priority":1}'}}
    answer = {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}}
    data = body(
        tools=tools,
        response_format=answer,
        messages=[{"role": "assistant", "content": None, "tool_calls": [call]}],
    )
    request = openai_chat.parse(data)
    assert request.stripped == ()
    document = sent(data)
    assert document["tools"] == tools
    assert document["response_format"] == answer
    assert document["messages"][0]["tool_calls"] == [call]


def test_what_stands_beside_a_tools_schema_is_not_opaque() -> None:
    tools = [{"type": "function", "priority": 1, "function": {"name": "f", "server_url": "x"}}]
    assert openai_chat.parse(body(tools=tools)).stripped == ("priority", "server_url")


@pytest.mark.parametrize(
    ("fields", "limit"),
    [
        ({}, None),
        ({"max_tokens": None}, None),
        ({"max_tokens": 7}, 7),
        ({"max_completion_tokens": 9}, 9),
        ({"max_tokens": 9, "max_completion_tokens": 7}, 7),
    ],
)
def test_the_smaller_limit_binds(fields: dict[str, Any], limit: int | None) -> None:
    assert openai_chat.parse(body(**fields)).output_limit == limit


@pytest.mark.parametrize("field", ["max_tokens", "max_completion_tokens", "n", "best_of"])
@pytest.mark.parametrize("value", [2**31, 2**53, 2**63, 2**64 - 1, 2**64, 10**30])
def test_a_count_that_does_not_fit_the_ledger_is_refused_by_name(field: str, value: int) -> None:
    with pytest.raises(Refused) as refused:
        openai_chat.parse(body(**{field: 0}).replace(b":0", b":%d" % value))
    assert (refused.value.status, refused.value.param) == (400, field)


@pytest.mark.parametrize(
    ("fields", "choices"), [({}, 1), ({"n": 3}, 3), ({"best_of": 5, "n": 2}, 5), ({"n": None}, 1)]
)
def test_every_choice_that_is_generated_counts(fields: dict[str, Any], choices: int) -> None:
    assert openai_chat.parse(body(**fields)).choices == choices


@pytest.mark.parametrize(
    ("engine", "field", "other"),
    [
        ("vllm", "max_tokens", "max_completion_tokens"),
        ("openai", "max_completion_tokens", "max_tokens"),
    ],
)
def test_the_cap_goes_into_the_engines_own_field(engine: str, field: str, other: str) -> None:
    document = sent(body(max_tokens=5, max_completion_tokens=6), engine, 5)
    assert document[field] == 5
    assert other not in document
    assert document["model"] == "real-model"


def test_usage_is_asked_for_in_every_stream_and_only_there() -> None:
    assert sent(body(stream=True))["stream_options"] == {"include_usage": True}
    kept = sent(body(stream=True, stream_options={"include_usage": False, "x": 1}))
    assert kept["stream_options"] == {"include_usage": True, "x": 1}
    assert "stream_options" not in sent(body(stream=False))


def test_it_remembers_whether_the_client_asked_for_usage() -> None:
    assert not openai_chat.parse(body(stream=True)).wants_usage
    asked = body(stream=True, stream_options={"include_usage": True})
    assert openai_chat.parse(asked).wants_usage


def test_trtllm_never_sees_a_field_it_would_refuse() -> None:
    document = sent(body(store=True, metadata={"a": "b"}, prompt_cache_key="k"), "trtllm")
    assert not {"store", "metadata", "prompt_cache_key"} & set(document)


def test_what_an_engine_lacks_is_refused_by_name_and_null_is_not_asked_for() -> None:
    with pytest.raises(Refused) as caught:
        sent(body(structured_outputs={"json": {}}), "trtllm")
    assert (caught.value.code, caught.value.param) == (
        "unsupported_parameter",
        "structured_outputs",
    )
    assert "regex" not in sent(body(regex=None), "trtllm")


def test_a_provider_without_chat_completions_is_refused_with_a_clear_code() -> None:
    with pytest.raises(Refused) as caught:
        sent(body(), "anthropic")
    assert (caught.value.code, caught.value.status) == ("unsupported_dialect", 400)


ANSWER = b'{"id":"a","choices":[{"message":{"content":"\\"usage\\":9"}}],"usage":%b}'


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (b'{"prompt_tokens":3,"completion_tokens":2}', (3, 2, 0)),
        (
            b'{"prompt_tokens":3,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":1}}',
            (3, 2, 1),
        ),
        (b'{"prompt_tokens":3,"completion_tokens":2,"prompt_tokens_details":null}', (3, 2, 0)),
        (
            b'{"prompt_tokens":3,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":9}}',
            (3, 2, 3),
        ),
        (b'{"prompt_tokens":0,"completion_tokens":0}', (0, 0, 0)),
        (b"null", None),
        (b'{"prompt_tokens":-3,"completion_tokens":2}', None),
        (b'{"prompt_tokens":3.5,"completion_tokens":2}', None),
        (b'{"prompt_tokens":"3","completion_tokens":2}', None),
        (b'{"completion_tokens":2}', None),
        (b"[]", None),
    ],
)
def test_usage_is_read_or_unknown_but_never_invented(
    usage: bytes, expected: tuple[int, int, int] | None
) -> None:
    answer = openai_chat.read_answer(ANSWER % usage)
    assert answer.usage == expected
    assert answer.choices == 1


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"<html>busy</html>",
        b'{"choices":[',
        b'{"id":"a"}',
        b'{"choices":null}',
        b'{"choices":{}}',
        b'{"error":{"message":"no"},"choices":[]}',
        b"[]",
        b'{"choices":[' + b"[" * 100_000,
        b'{"choices":[{"a":"\xff"}]',
    ],
)
def test_an_answer_that_is_none_is_a_bad_response(data: bytes) -> None:
    with pytest.raises(Refused) as caught:
        openai_chat.read_answer(data)
    assert caught.value.code == "upstream_bad_response"
