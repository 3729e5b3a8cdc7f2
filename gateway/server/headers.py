"""Strict reading of a request head: what is believed of it and what ends the request."""

from __future__ import annotations

import re
from typing import Final

from gateway.protocols.errors import Refused
from gateway.server.exchange import Exchange

SINGLETONS: Final = frozenset(
    (
        b"authorization",
        b"content-encoding",
        b"content-length",
        b"content-type",
        b"expect",
        b"host",
        b"idempotency-key",
        b"traceparent",
        b"transfer-encoding",
        b"x-api-key",
        b"x-request-id",
    )
)
"""Headers that mean nothing, or two things, when they come twice."""

METHODS: Final = frozenset((b"GET", b"HEAD", b"POST", b"PUT", b"PATCH", b"DELETE", b"OPTIONS"))
UNTRUSTED_PREFIXES: Final = (b"x-ace-", b"x-forwarded-")
_PATH: Final = re.compile(rb"/[A-Za-z0-9._~!$&'()*+,;=:@/%-]*")
_QUERY: Final = re.compile(rb"[\x21\x22\x24-\x7e]*")
_FORBIDDEN: Final = re.compile(
    rb"%(?:2[ef5]|5c|[01][0-9a-f]|7f|[89a-f][0-9a-f])|%(?![0-9a-f]{2})|//|/\.\.?(?:/|$)",
    re.IGNORECASE,
)
_HOST: Final = re.compile(
    rb"(\[[0-9a-f:.]{2,45}\]|[a-z0-9](?:[a-z0-9._-]{0,252}[a-z0-9])?)(?::[0-9]{1,5})?"
)
_BEARER: Final = re.compile(rb"bearer +([\x21-\x7e]+)", re.IGNORECASE)
_KEY: Final = re.compile(rb"[\x21-\x7e]+")


def read_fields(exchange: Exchange, header_bytes: int, header_count: int) -> None:
    """Headers as they came become headers as they are read: names in lower case, singletons checked to be single.

    Once for a whole head, not once a header: a third of the price. What a head may hold before it is complete is
    bounded by the connection.
    """
    came = exchange.headers
    if len(came) > header_count:
        raise Refused("headers_too_large")
    kept: list[tuple[bytes, bytes]] = []
    singletons = exchange.singletons
    size = 0
    for raw, value in came:
        size += len(raw) + len(value)
        name = raw.lower()
        if name in SINGLETONS:
            if name in singletons:
                raise Refused("duplicate_header")
            singletons[name] = value
        elif b"_" in name:
            continue  # servers behind and before us may take it for the spelling with a dash
        kept.append((name, value))
    if size > header_bytes:
        raise Refused("headers_too_large")
    exchange.headers = kept


def split_target(url: bytes) -> tuple[bytes, bytes]:
    """Path and query of an origin-form target. The path is never decoded: a route is exactly its bytes.

    Raises Refused for absolute forms, encoded slashes, dots, percent signs and controls, and for dot segments.
    """
    path, _, query = url.partition(b"?")
    if not _PATH.fullmatch(path) or _FORBIDDEN.search(path) or not _QUERY.fullmatch(query):
        raise Refused("invalid_path")
    return path, query


def check_host(singletons: dict[bytes, bytes], allowed: frozenset[bytes]) -> None:
    """One Host in grammar and in the allow-list, whatever port it names."""
    host = _HOST.fullmatch(singletons.get(b"host", b"").lower())
    if host is None or not (host[1] in allowed or b"*" in allowed):
        raise Refused("invalid_host")


def check_framing(singletons: dict[bytes, bytes], body_bytes: int) -> None:
    """No second opinion about where the body ends is possible. `body_bytes`: the most a declared body may have."""
    coding = singletons.get(b"transfer-encoding")
    length = singletons.get(b"content-length")
    if coding is not None and (length is not None or coding.lower() != b"chunked"):
        raise Refused(
            "malformed_http", "Transfer-Encoding must be 'chunked', without Content-Length."
        )
    check_length(length, body_bytes)


def check_length(length: bytes | None, body_bytes: int) -> None:
    if length is None:
        return
    if not length.isdigit() or len(length) > 19:  # noqa: PLR2004 - more overflows 64 bits in somebody's parser
        raise Refused("malformed_http", "Content-Length is not a number.")
    if int(length) > body_bytes:
        raise Refused("request_too_large")


def check_json(singletons: dict[bytes, bytes]) -> None:
    """The body of a hot route is JSON, in one media type and no content coding."""
    media, _, parameters = singletons.get(b"content-type", b"").partition(b";")
    charset = parameters.strip().lower()
    if media.strip().lower() != b"application/json" or charset not in _CHARSETS:
        raise Refused("unsupported_media_type")
    if singletons.get(b"content-encoding", b"identity").lower() != b"identity":
        raise Refused("unsupported_media_type", "Compressed request bodies are not accepted.")


_CHARSETS: Final = frozenset((b"", b"charset=utf-8", b'charset="utf-8"'))


def expects_continue(singletons: dict[bytes, bytes]) -> bool:
    expect = singletons.get(b"expect")
    if expect is None:
        return False
    if expect.lower() != b"100-continue":
        raise Refused("expectation_failed")
    return True


def credential(exchange: Exchange) -> bytes:
    """The API key, from `Authorization: Bearer` or `x-api-key`. Raises Refused when there is none, or two."""
    authorization = exchange.singletons.get(b"authorization")
    key = exchange.singletons.get(b"x-api-key")
    if key is None and authorization is not None and authorization.startswith(b"Bearer ace_"):
        return authorization[
            7:
        ]  # what is not a key of ours after that has no record and is refused as unknown
    if authorization is None:
        if key is None or not _KEY.fullmatch(key):
            raise Refused("invalid_api_key")
        return key
    bearer = _BEARER.fullmatch(authorization)
    if bearer is None:
        raise Refused("invalid_api_key", "Authorization must be 'Bearer' followed by an API key.")
    if key is not None and key != bearer[1]:
        raise Refused("conflicting_credentials")
    return bearer[1]
