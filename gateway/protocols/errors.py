"""The error tree of the data plane, and how a caller of the OpenAI dialect sees it.

A `Refused` carries a stable code; status, error type and retry advice follow from the table, so that one code never
shows with two statuses. Messages are written by us: no text of an exception, a key or a prompt gets in.
"""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, Literal

import orjson

Origin = Literal["gateway", "upstream", "client"]


@dataclass(frozen=True, slots=True)
class ErrorCode:
    """What a stable code means to a caller. `should_retry` None: the client's own rule decides."""

    status: int
    type: str
    message: str
    origin: Origin = "gateway"
    should_retry: bool | None = None


def _client(status: int, message: str, kind: str = "invalid_request_error") -> ErrorCode:
    return ErrorCode(status, kind, message, "client", should_retry=False)


CODES: Final[dict[str, ErrorCode]] = {
    "invalid_request": _client(400, "The request is invalid."),
    "malformed_http": _client(400, "The HTTP request is malformed."),
    "invalid_host": _client(400, "The Host header is missing, malformed or not served here."),
    "invalid_path": _client(400, "The request path is malformed or contains encoded separators."),
    "duplicate_header": _client(400, "A header that may appear once appears twice."),
    "upgrade_refused": _client(400, "Protocol upgrades are not supported."),
    "conflicting_credentials": _client(
        400, "Authorization and x-api-key are both present and differ; send one of them."
    ),
    "unsupported_parameter": _client(400, "A parameter is not supported by the model's engine."),
    "unsupported_dialect": _client(400, "This model is not available through this endpoint yet."),
    "context_length_exceeded": _client(400, "The prompt is longer than the model's context."),
    "content_blocked": _client(400, "The request was blocked by a policy."),
    "invalid_api_key": _client(401, "The API key is missing or not valid.", "authentication_error"),
    "key_revoked": _client(401, "The API key was revoked.", "authentication_error"),
    "key_expired": _client(401, "The API key has expired.", "authentication_error"),
    "model_not_allowed": _client(
        403, "This API key may not use the model.", "permission_error"
    ),
    "region_not_allowed": _client(
        403, "No endpoint for this model is in a region the tenant allows.", "permission_error"
    ),
    "model_not_found": _client(404, "The model does not exist."),
    "not_found": _client(404, "There is nothing at this path."),
    "method_not_allowed": _client(405, "The method is not allowed for this path."),
    "request_timeout": _client(408, "The request did not arrive in time."),
    "request_too_large": _client(413, "The request body is too large."),
    "uri_too_long": _client(414, "The request path is too long."),
    "unsupported_media_type": _client(415, "The body must be application/json, not compressed."),
    "expectation_failed": _client(417, "Only `Expect: 100-continue` is supported."),
    "rate_limit_exceeded": ErrorCode(
        429, "rate_limit_error", "A rate limit is exceeded.", "gateway", should_retry=True
    ),
    "upstream_rate_limited": ErrorCode(
        429, "rate_limit_error", "The model's provider limits the rate.", "upstream"
    ),
    "budget_exceeded": ErrorCode(
        429, "budget_error", "A budget is used up.", "gateway", should_retry=False
    ),
    "too_many_pipelined": _client(429, "Too many pipelined requests on one connection."),
    "headers_too_large": _client(431, "The request headers are too large or too many."),
    "internal_error": ErrorCode(500, "server_error", "The gateway failed on this request."),
    "not_implemented": _client(501, "The method is not implemented."),
    "upstream_bad_response": ErrorCode(
        502, "upstream_error", "The model's engine sent an answer that cannot be used.", "upstream"
    ),
    "upstream_credential_refused": ErrorCode(
        502, "upstream_error", "The provider refused the gateway's credential.", "upstream",
        should_retry=False,
    ),
    "upstream_unavailable": ErrorCode(
        503, "upstream_error", "No endpoint of this model can be reached.", "upstream"
    ),
    "circuit_open": ErrorCode(
        503, "upstream_error", "Every endpoint of this model is resting after failures.", "upstream"
    ),
    "overloaded": ErrorCode(
        503, "server_error", "The gateway is overloaded.", should_retry=True
    ),
    "draining": ErrorCode(
        503, "server_error", "This gateway worker is shutting down.", should_retry=True
    ),
    "not_ready": ErrorCode(503, "server_error", "The gateway has no policy yet.", should_retry=True),
    "spend_unrecordable": ErrorCode(
        503, "server_error", "Spend cannot be recorded now, so nothing is spent."
    ),
    "price_unknown": ErrorCode(
        503, "server_error", "The model has no known price, so it is not served.", should_retry=False
    ),
    "upstream_timeout": ErrorCode(
        504, "upstream_error", "The model's engine did not answer in time.", "upstream"
    ),
    "http_version_not_supported": _client(505, "Only HTTP/1.0 and HTTP/1.1 are supported."),
}  # fmt: skip


class Refused(Exception):  # noqa: N818 - a refusal is an expected result, not an error of ours
    """A request that gets an error answer. Attributes are what a caller may see.

    `retry_after_ms` None: no advice. `details` goes into `error.ace` and must be JSON of plain facts.
    """

    def __init__(
        self,
        code: str,
        message: str = "",
        *,
        param: str | None = None,
        retry_after_ms: int | None = None,
        details: dict[str, Any] | None = None,
        headers: tuple[tuple[bytes, bytes], ...] = (),
    ) -> None:
        super().__init__(code)
        entry = CODES[code]
        self.code = code
        self.status = entry.status
        self.type = entry.type
        self.origin: Origin = entry.origin
        self.should_retry = entry.should_retry
        self.message = message or entry.message
        self.param = param
        self.retry_after_ms = retry_after_ms
        self.details = details
        self.headers = headers


def invalid(param: str | None, message: str) -> Refused:
    """400 `invalid_request` that names the parameter."""
    return Refused("invalid_request", message, param=param)


def budget_exceeded(
    budget: str, *, used_microusd: int, limit_microusd: int, resets_at: str | None
) -> Refused:
    """Names the budget, what is used of it and when it starts again (RFC 3339; None: never)."""
    when = f"resets at {resets_at}" if resets_at else "does not reset"
    return Refused(
        "budget_exceeded",
        f"Budget '{budget}' cannot pay for this request: {used_microusd} of {limit_microusd} "
        f"micro-dollars are used or reserved; it {when}.",
        details={
            "budget": budget,
            "used_microusd": used_microusd,
            "limit_microusd": limit_microusd,
            "resets_at": resets_at,
        },
    )


def error_object(refused: Refused, request_id: str) -> dict[str, Any]:
    """The OpenAI error object, with our facts under `ace`."""
    ace: dict[str, Any] = {"request_id": request_id, "origin": refused.origin}
    if refused.details:
        ace.update(refused.details)
    return {
        "message": refused.message,
        "type": refused.type,
        "param": refused.param,
        "code": refused.code,
        "ace": ace,
    }


def openai_body(refused: Refused, request_id: str) -> bytes:
    """The JSON body alone, for ASGI routes."""
    return orjson.dumps({"error": error_object(refused, request_id)})


def openai_stream_error(refused: Refused, request_id: str) -> bytes:
    """The event that ends a stream which cannot be finished; no `[DONE]` follows it."""
    return b"event: error\ndata: " + openai_body(refused, request_id) + b"\n\n"


def response_headers(
    refused: Refused, request_id: str, policy_version: int | None
) -> list[tuple[bytes, bytes]]:
    """Headers of an error answer, without content-length. `policy_version` None: judged by none yet."""
    headers = [
        (b"content-type", b"application/json"),
        (b"x-request-id", _header_value(request_id)),
        (b"x-ace-error-origin", refused.origin.encode()),
    ]
    if policy_version is not None:
        headers.append((b"x-ace-policy-version", b"%d" % policy_version))
    if refused.should_retry is not None:
        headers.append((b"x-should-retry", b"true" if refused.should_retry else b"false"))
    if refused.retry_after_ms is not None:
        milliseconds = max(0, refused.retry_after_ms)
        headers.append((b"retry-after", b"%d" % -(-milliseconds // 1000)))
        headers.append((b"retry-after-ms", b"%d" % milliseconds))
    if refused.status == HTTPStatus.UNAUTHORIZED:
        headers.append((b"www-authenticate", b"Bearer"))
    headers.extend(refused.headers)
    return headers


def render_openai(refused: Refused, request_id: str, policy_version: int | None) -> bytes:
    """A whole HTTP response: status line, headers, body."""
    body = openai_body(refused, request_id)
    lines = [b"HTTP/1.1 %d %b\r\n" % (refused.status, reason_phrase(refused.status))]
    lines += [
        b"%b: %b\r\n" % pair for pair in response_headers(refused, request_id, policy_version)
    ]
    lines.append(b"content-length: %d\r\n\r\n" % len(body))
    lines.append(body)
    return b"".join(lines)


def reason_phrase(status: int) -> bytes:
    try:
        return HTTPStatus(status).phrase.encode()
    except ValueError:
        return b"Unknown"


def _header_value(text: str) -> bytes:
    """Printable ASCII only: a value can never start a new header line."""
    return bytes(byte for byte in text.encode("ascii", "ignore") if 0x20 <= byte < 0x7F)  # noqa: PLR2004
