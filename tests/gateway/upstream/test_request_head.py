from __future__ import annotations

import pytest

from gateway.upstream.engines import ENGINES
from gateway.upstream.request_head import RequestHead, parse_base_url


@pytest.mark.parametrize(
    ("url", "host", "port", "prefix", "authority"),
    [
        ("http://engine:8000", "engine", 8000, "", "engine:8000"),
        ("https://api.example.com/openai/", "api.example.com", 443, "/openai", "api.example.com"),
        ("http://[::1]:9000", "::1", 9000, "", "[::1]:9000"),
        ("http://10.0.0.1:80", "10.0.0.1", 80, "", "10.0.0.1"),
    ],
)
def test_a_base_url_is_taken_apart(
    url: str, host: str, port: int, prefix: str, authority: str
) -> None:
    address = parse_base_url(url)
    assert (address.host, address.port, address.prefix, address.authority) == (
        host,
        port,
        prefix,
        authority,
    )
    assert address.tls == url.startswith("https")


@pytest.mark.parametrize(
    "url",
    [
        "ftp://engine",
        "engine:8000",
        "http://",
        "http://user:secret@engine",
        "http://engine/?a=b",
        "http://engine/#a",
        "http://engine/a b",
        "http://engine/%0d%0a\r\nx: y",
        "http://eng ine",
        "http://engine\r\nx: y/",
        "http://engine:port",
        "http://engine:99999",
    ],
)
def test_a_base_url_that_could_not_be_sent_is_an_error(url: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse_base_url(url)


def test_a_request_is_one_message_with_our_headers_only() -> None:
    address = parse_base_url("http://engine:8000/a%20b")
    head = RequestHead(address, "/v1/chat/completions", ENGINES["vllm"], "secret%key")
    assert head.render(b"req_1", b"00-t-s-01", b'{"a":"%b"}') == (
        b"POST /a%20b/v1/chat/completions HTTP/1.1\r\nhost: engine:8000\r\n"
        b"content-type: application/json\r\naccept: application/json, text/event-stream\r\n"
        b"accept-encoding: identity\r\nuser-agent: ace-gateway\r\n"
        b"authorization: Bearer secret%key\r\nx-request-id: req_1\r\ntraceparent: 00-t-s-01\r\n"
        b'content-length: 10\r\n\r\n{"a":"%b"}'
    )


def test_each_engine_has_its_own_way_to_carry_a_credential() -> None:
    address = parse_base_url("https://api.anthropic.com")
    text = RequestHead(address, "/v1/messages", ENGINES["anthropic"], "k").render(b"r", b"t", b"")
    assert b"\r\nx-api-key: k\r\n" in text
    assert b"\r\nanthropic-version: 2023-06-01\r\n" in text
    assert b"authorization" not in text


def test_without_a_credential_no_such_header_is_sent() -> None:
    text = RequestHead(parse_base_url("http://e"), "/x", ENGINES["vllm"]).render(b"r", b"t", b"")
    assert b"authorization" not in text


@pytest.mark.parametrize("credential", ["a\r\nx: y", "", " a", "ä", "a\x00"])
def test_a_credential_that_no_header_can_carry_is_an_error(credential: str) -> None:
    with pytest.raises(ValueError, match="credential"):
        RequestHead(parse_base_url("http://e"), "/x", ENGINES["vllm"], credential)
