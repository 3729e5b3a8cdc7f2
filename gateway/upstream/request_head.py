"""Heads of requests to an engine, compiled once per endpoint and route. Nothing of the client's headers gets in."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from gateway.upstream.engines.table import Capabilities

_HOST: Final = re.compile(r"[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\]")
_PREFIX: Final = re.compile(r"(/[A-Za-z0-9._~!$&'()*+,;=:@%-]+)*")
_VALUE: Final = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")
_PORTS: Final = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Address:
    """Where an endpoint's base URL leads: scheme, host (no brackets), port and path prefix."""

    tls: bool
    host: str
    port: int
    prefix: str
    authority: str


def parse_base_url(base_url: str) -> Address:
    """ValueError says what is wrong; a base URL is an operator's, so the text may be shown to one."""
    parts = urlsplit(base_url)
    if parts.scheme not in _PORTS:
        raise ValueError("base URL must begin with http:// or https://")
    if parts.username or parts.password or "@" in parts.netloc:
        raise ValueError("base URL must not contain credentials")
    if parts.query or parts.fragment:
        raise ValueError("base URL must not contain a query or fragment")
    host = parts.hostname or ""
    shown = f"[{host}]" if ":" in host else host
    if not _HOST.fullmatch(shown):
        raise ValueError("base URL has no valid host")
    prefix = parts.path.rstrip("/")
    if not _PREFIX.fullmatch(prefix):
        raise ValueError("base URL has a malformed path")
    default = _PORTS[parts.scheme]
    port = parts.port or default
    authority = shown if port == default else f"{shown}:{port}"
    return Address(parts.scheme == "https", host, port, prefix, authority)


class RequestHead:
    """`render` gives a whole POST request: one `%`-format of a compiled template, then the body."""

    __slots__ = ("_template",)

    def __init__(
        self, address: Address, path: str, engine: Capabilities, credential: str | None = None
    ) -> None:
        """`path` is a route of the engine such as `/v1/chat/completions`; `credential` the provider's key, unsealed."""
        lines = [
            f"POST {address.prefix}{path} HTTP/1.1".encode(),
            b"host: " + address.authority.encode(),
            b"content-type: application/json",
            b"accept: application/json, text/event-stream",
            b"accept-encoding: identity",
            b"user-agent: ace-gateway",
        ]
        lines += [b"%b: %b" % pair for pair in engine.extra_headers]
        if credential is not None:
            if not _VALUE.fullmatch(credential):
                raise ValueError("provider credential contains characters a header cannot carry")
            lines.append(engine.auth_header + b": " + engine.auth_scheme + credential.encode())
        fixed = b"\r\n".join(lines).replace(b"%", b"%%")
        self._template = (
            fixed + b"\r\nx-request-id: %b\r\ntraceparent: %b\r\ncontent-length: %d\r\n\r\n%b"
        )

    def render(self, request_id: bytes, traceparent: bytes, body: bytes) -> bytes:
        """`request_id` and `traceparent` must be the gateway's own: they are not checked here."""
        return self._template % (request_id, traceparent, len(body), body)
