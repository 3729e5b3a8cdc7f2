"""Heads of answers. A template with holes, filled by one `%`-format: 0.1 µs where joining headers costs 1.3."""

from __future__ import annotations

from time import monotonic_ns
from typing import Final

from gateway.pipeline.context import Call

_UNARY: Final = (
    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nx-request-id: %b\r\n"
    b"x-ace-policy-version: %d\r\nx-ace-cost-micros: %d\r\n%b"
    b"server-timing: gw;dur=%d.%03d, up;dur=%d.%03d\r\ncontent-length: %d\r\n\r\n%b"
)
_STREAM: Final = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ncache-control: no-store\r\n"
    b"x-accel-buffering: no\r\nx-request-id: %b\r\nx-ace-policy-version: %d\r\n%b"
    b"server-timing: ttft;dur=%d.%03d\r\ntransfer-encoding: chunked\r\n\r\n"
)
_PASSED: Final = (
    b"HTTP/1.1 %d %b\r\ncontent-type: application/json\r\nx-request-id: %b\r\n"
    b"x-ace-policy-version: %d\r\nx-ace-error-origin: upstream\r\nx-should-retry: false\r\n"
    b"content-length: %d\r\n\r\n%b"
)
_RATE: Final = b"x-ratelimit-limit-requests: %d\r\nx-ratelimit-remaining-requests: %d\r\n"
_SOFT: Final = b"x-ace-budget: soft-limit-exceeded\r\n"


def unary(call: Call, body: bytes, billed: int) -> bytes:
    now_ns = monotonic_ns()
    upstream_us = (now_ns - call.attempt_began_ns) // 1000
    own_us = max(0, (now_ns - call.began_ns) // 1000 - upstream_us)
    return _UNARY % (
        call.request_id,
        call.runtime.version,
        billed,
        _extra(call, now_ns),
        *divmod(own_us, 1000),
        *divmod(upstream_us, 1000),
        len(body),
        body,
    )


def stream_head(call: Call) -> bytes:
    now_ns = monotonic_ns()
    first_us = ((call.first_ns or now_ns) - call.began_ns) // 1000
    return _STREAM % (
        call.request_id,
        call.runtime.version,
        _extra(call, now_ns),
        *divmod(first_us, 1000),
    )


def passed_on(call: Call, status: int, reason: bytes, body: bytes) -> bytes:
    """An engine's own error object, for faults of the request that only the engine can explain."""
    return _PASSED % (status, reason, call.request_id, call.runtime.version, len(body), body)


def _extra(call: Call, now_ns: int) -> bytes:
    """Rate headers for a key that has a rate, a flag for one beyond a soft budget."""
    limiter, purse = call.key.limiter, call.key.purse
    extra = b""
    limit = limiter.requests_per_minute
    if limit is not None:
        extra = _RATE % (limit, limiter.remaining(now_ns))
    if purse is not None and purse.soft and purse.over_soft_limit():
        extra += _SOFT
    return extra
