# ruff: noqa: E501 - one payload a line reads better than a wrapped one
"""Raw requests and the statuses they must get. None stands for a server that may close without a word."""

from __future__ import annotations

from typing import NamedTuple

from tests.gateway.server.harness import CHAT, KEY, chat

HEAD = b"POST %b HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer %b\r\n" % (CHAT, KEY)
JSON = b"content-type: application/json\r\n"
CHUNKED = b"transfer-encoding: chunked"
GET = b"GET /v1/models HTTP/1.1\r\nhost: localhost\r\n"
SMUGGLED = b"GET /smuggled HTTP/1.1\r\nhost: localhost\r\n\r\n"


class Payload(NamedTuple):
    name: str
    data: bytes
    statuses: list[int]
    fallback: list[int] | None = None
    """What uvicorn's own class answers where it cannot do the same."""


def _get(target: bytes, *lines: bytes) -> bytes:
    return b"GET %b HTTP/1.1\r\nhost: localhost\r\n%b\r\n" % (
        target,
        b"".join(line + b"\r\n" for line in lines),
    )


def _post(*lines: bytes, body: bytes = b"") -> bytes:
    return HEAD + JSON + b"".join(line + b"\r\n" for line in lines) + b"\r\n" + body


PAYLOADS = [
    # what must work
    Payload("a plain request", chat(), [200]),
    Payload("a chunked body", _post(CHUNKED, body=b"2\r\n{}\r\n0\r\n\r\n"), [200]),
    Payload("a chunk extension", _post(CHUNKED, body=b"2;a=b\r\n{}\r\n0\r\n\r\n"), [200]),
    Payload("upper-case header names", chat().replace(b"content-type", b"CONTENT-TYPE"), [200]),
    Payload("x-api-key in place of authorization", chat(b"{}", b"x-api-key: " + KEY, key=None), [200]),
    Payload("both credentials alike", chat(b"{}", b"x-api-key: " + KEY), [200]),
    Payload("bearer in lower case", chat(b"{}", b"authorization: bearer " + KEY, key=None), [200]),
    Payload("a host with a port", chat(host=b"LocalHost:8080"), [200]),
    Payload("an IPv6 host", chat(host=b"[::1]:8080"), [200]),
    Payload("a query on a hot route", chat().replace(CHAT, CHAT + b"?api-version=1"), [200]),
    Payload("a charset", chat().replace(b"application/json", b"application/json; charset=utf-8"), [200]),
    Payload("two pipelined requests", chat() + chat(), [200, 200]),
    Payload("an empty line before the request", b"\r\n" + chat(), [200]),
    Payload("a GET of another route", _get(b"/v1/models"), [200]),
    Payload("a percent-encoded space", _get(b"/v1/models/a%20b"), [200]),
    Payload("HTTP/1.0", _get(b"/v1/models").replace(b"HTTP/1.1", b"HTTP/1.0"), [200]),
    Payload("an empty header value", _get(b"/v1/models", b"x-empty:"), [200]),
    # two parsers must not disagree about the end of the body
    Payload("length and chunks", _post(b"content-length: 2", CHUNKED, body=b"2\r\n{}\r\n0\r\n\r\n"), [400]),
    Payload("chunks and length, smuggling", _post(CHUNKED, b"content-length: 40", body=b"0\r\n\r\n" + SMUGGLED), [400]),
    Payload("two lengths that differ", _post(b"content-length: 2", b"content-length: 3", body=b"{}"), [400]),
    Payload("two lengths alike", _post(b"content-length: 2", b"content-length: 2", body=b"{}"), [400]),
    Payload("a list of lengths", _post(b"content-length: 2, 2", body=b"{}"), [400]),
    Payload("a signed length", _post(b"content-length: +2", body=b"{}"), [400]),
    Payload("a negative length", _post(b"content-length: -1", body=b"{}"), [400]),
    Payload("a hexadecimal length", _post(b"content-length: 0x2", body=b"{}"), [400]),
    Payload("a length with an underscore", _post(b"content-length: 0_2", body=b"{}"), [400]),
    Payload("an empty length", _post(b"content-length:", body=b"{}"), [400]),
    Payload("a length of 30 digits", _post(b"content-length: " + b"9" * 30, body=b"{}"), [400]),
    Payload("chunked twice", _post(CHUNKED, CHUNKED, body=b"0\r\n\r\n"), [400]),
    Payload("identity, then chunked", _post(b"transfer-encoding: identity", CHUNKED, body=b"0\r\n\r\n"), [400]),
    Payload("identity", _post(b"transfer-encoding: identity", body=b"{}"), [400], []),
    Payload("gzip, chunked", _post(b"transfer-encoding: gzip, chunked", body=b"0\r\n\r\n"), [400]),
    Payload("chunked, identity", _post(b"transfer-encoding: chunked, identity", body=b"0\r\n\r\n"), [400]),
    Payload("a vertical tab before chunked", _post(b"transfer-encoding: \x0bchunked", body=b"0\r\n\r\n"), [400]),
    Payload("a misspelt coding", _post(b"transfer-encoding: xchunked", body=b"0\r\n\r\n"), [400], []),
    Payload("chunks under HTTP/1.0", _post(CHUNKED, body=b"0\r\n\r\n").replace(b"HTTP/1.1", b"HTTP/1.0"), [505], [200]),
    Payload("a chunk size of 17 digits", _post(CHUNKED, body=b"0" * 16 + b"fffffffffffffffff\r\n{}"), [400], []),
    Payload("a chunk size with 0x", _post(CHUNKED, body=b"0x2\r\n{}\r\n0\r\n\r\n"), [400], []),
    Payload("a chunk size with an underscore", _post(CHUNKED, body=b"0_2\r\n{}\r\n0\r\n\r\n"), [400], []),
    Payload("a signed chunk size", _post(CHUNKED, body=b"+2\r\n{}\r\n0\r\n\r\n"), [400], []),
    Payload("a chunk line ended by a bare LF", _post(CHUNKED, body=b"2\n{}\n0\n\n"), [400], []),
    Payload("a chunk longer than it says", _post(CHUNKED, body=b"1\r\n{}\r\n0\r\n\r\n"), [400], []),
    # the head
    Payload("no host", chat().replace(b"host: localhost\r\n", b""), [400]),
    Payload("two hosts", chat(b"{}", b"host: localhost"), [400]),
    Payload("an empty host", chat(host=b""), [400]),
    Payload("a host outside the list", chat(host=b"evil.example"), [400]),
    Payload("a host with a path", chat(host=b"localhost/admin?x="), [400]),
    Payload("a host with credentials", chat(host=b"a@localhost"), [400]),
    Payload("a host with a wild port", chat(host=b"localhost:99999999"), [400]),
    Payload("a host with a suffix", chat(host=b"localhost.evil.example"), [400]),
    Payload("two authorizations", chat(b"{}", b"authorization: Bearer other"), [400]),
    Payload("two content types", chat(b"{}", b"content-type: text/plain"), [400]),
    Payload("a folded header", _get(b"/v1/models", b"x-a: b", b" c"), [400]),
    Payload("a space before the colon", _get(b"/v1/models", b"x-a : b"), [400]),
    Payload("an empty header name", _get(b"/v1/models", b": b"), [400]),
    Payload("a header without a colon", _get(b"/v1/models", b"nonsense"), [400]),
    Payload("NUL in a value", _get(b"/v1/models", b"x-a: b\x00c"), [400]),
    Payload("CR in a value", _get(b"/v1/models", b"x-a: b\rc"), [400]),
    Payload("NUL in a name", _get(b"/v1/models", b"x\x00a: b"), [400]),
    Payload("lines ended by bare LF", _get(b"/v1/models").replace(b"\r\n", b"\n"), [400]),
    Payload("a header line ended by a bare LF", GET + b"x-a: b\nx-b: c\r\n\r\n", [400]),
    Payload("101 headers", _get(b"/v1/models", *[b"x-%d: a" % n for n in range(101)]), [431]),
    Payload("a header of 40 KB in one read", _get(b"/v1/models", b"x-a: " + b"a" * 40_000), [431]),
    Payload("a head that never ends", b"GET / HTTP/1.1\r\nx: " + b"a" * 60_000, [431]),
    Payload("an upgrade to websocket", _get(b"/ws", b"connection: upgrade", b"upgrade: websocket", b"sec-websocket-key: a"), [400]),
    Payload("an upgrade to h2c with a body", _post(b"connection: upgrade", b"upgrade: h2c", b"content-length: 2", body=b"{}"), [400]),
    Payload("CONNECT", b"CONNECT localhost:80 HTTP/1.1\r\nhost: localhost\r\n\r\n", [400]),
    # the request line
    Payload("an absolute form", _get(b"http://localhost/v1/models"), [400]),
    Payload("an absolute form of another host", _get(b"http://evil.example/v1/models"), [400]),
    Payload("an asterisk form", b"OPTIONS * HTTP/1.1\r\nhost: localhost\r\n\r\n", [400]),
    Payload("an encoded slash", _get(b"/v1/..%2f..%2fadmin"), [400]),
    Payload("an encoded slash in upper case", _get(b"/v1%2Fmodels"), [400]),
    Payload("an encoded dot", _get(b"/v1/%2e%2e/models"), [400]),
    Payload("an encoded backslash", _get(b"/v1%5cmodels"), [400]),
    Payload("an encoded percent sign", _get(b"/v1/%252e"), [400]),
    Payload("an encoded NUL", _get(b"/v1/%00"), [400]),
    Payload("a broken percent encoding", _get(b"/v1/%zz"), [400]),
    Payload("a dot segment", _get(b"/v1/../admin"), [400]),
    Payload("a final dot segment", _get(b"/v1/."), [400]),
    Payload("a double slash", _get(b"//v1/models"), [400]),
    Payload("a fragment", _get(b"/v1/models#x"), [400]),
    Payload("a backslash", _get(b"/v1\\models"), [400]),
    Payload("raw UTF-8", _get("/v1/é".encode()), [400]),
    Payload("a path of 9 KB", _get(b"/" + b"a" * 9000), [414]),
    Payload("HTTP/2.0", _get(b"/v1/models").replace(b"HTTP/1.1", b"HTTP/2.0"), [505]),
    Payload("HTTP/9.9", _get(b"/v1/models").replace(b"HTTP/1.1", b"HTTP/9.9"), [400]),
    Payload("HTTP/0.9", b"GET /v1/models\r\n\r\n", [505]),
    Payload("an unknown method", _get(b"/v1/models").replace(b"GET", b"BREW"), [400]),
    Payload("a method of another protocol", _get(b"/v1/models").replace(b"GET", b"MKCOL"), [501]),
    Payload("TLS towards a plain port", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"a" * 40, [400]),
    Payload("the HTTP/2 preface", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", [400]),
    # who and what
    Payload("no key", chat(key=None), [401]),
    Payload("a wrong key", chat(key=b"other"), [401]),
    Payload("an empty key", chat(b"{}", b"x-api-key:", key=None), [401]),
    Payload("basic credentials", chat(b"{}", b"authorization: Basic YTpi", key=None), [401]),
    Payload("a key in the query alone", chat(key=None).replace(CHAT, CHAT + b"?key=" + KEY), [401]),
    Payload("two keys that differ", chat(b"{}", b"x-api-key: other"), [400]),
    Payload("a compressed body", chat(b"\x1f\x8b", b"content-encoding: gzip"), [415]),
    Payload("a form", chat().replace(b"application/json", b"application/x-www-form-urlencoded"), [415]),
    Payload("no content type", chat().replace(JSON, b""), [415]),
    Payload("another charset", chat().replace(b"application/json", b"application/json; charset=utf-16"), [415]),
    Payload("an unknown expectation", chat(b"{}", b"expect: 200-ok"), [417]),
    Payload("GET on a hot route", _get(CHAT), [405]),
    Payload("a declared body of 30 MB", _post(b"content-length: 31457280"), [413]),
    Payload("a wrong key, then the connection goes on", chat(key=b"other") + chat(), [401, 200]),
]  # fmt: skip
