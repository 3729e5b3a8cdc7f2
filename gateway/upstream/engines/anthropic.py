"""Anthropic speaks its own dialect: it has no chat completions route."""

from __future__ import annotations

from typing import Final

from gateway.upstream.engines.table import Capabilities

CAPABILITIES: Final = Capabilities(
    name="anthropic",
    routes=frozenset(),
    stream_usage=False,
    auth_header=b"x-api-key",
    auth_scheme=b"",
    health_path=None,
    extra_headers=((b"anthropic-version", b"2023-06-01"),),
)
