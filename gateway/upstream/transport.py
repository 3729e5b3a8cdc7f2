"""The border to an engine: one HTTP exchange as callbacks. `pool.Pool` and `httpx_transport.HTTPXTransport` serve it.

Both pass the same contract suite (`tests/contract/test_transport_contract.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple, Protocol

READ_BYTES: Final = 32 << 10
"""Most bytes taken from an engine at once; bounds what a stalled client can make us keep."""

MAX_ANSWER_BYTES: Final = 32 << 20
MAX_HEAD_BYTES: Final = 64 << 10

HEADERS_OF_INTEREST: Final = frozenset(
    (b"content-type", b"retry-after", b"retry-after-ms", b"x-request-id", b"x-should-retry")
)
"""Answer headers handed to a sink; every other one stops here."""

FaultKind = Literal[
    "connect",
    "connect_timeout",
    "tls",
    "pool_exhausted",
    "first_byte_timeout",
    "idle_timeout",
    "total_timeout",
    "connection_lost",
    "framing",
    "too_large",
    "closed",
]

_CODES: Final[dict[FaultKind, str]] = {
    "connect": "upstream_unavailable",
    "connect_timeout": "upstream_unavailable",
    "tls": "upstream_bad_response",
    "pool_exhausted": "upstream_unavailable",
    "first_byte_timeout": "upstream_timeout",
    "idle_timeout": "upstream_timeout",
    "total_timeout": "upstream_timeout",
    "connection_lost": "upstream_bad_response",
    "framing": "upstream_bad_response",
    "too_large": "upstream_bad_response",
    "closed": "upstream_unavailable",
}

_UNSENT: Final = frozenset(("connect", "connect_timeout", "tls", "pool_exhausted"))


class UpstreamError(Exception):
    """An attempt that failed. `detail` is for the operator and never shown to a caller."""

    def __init__(self, kind: FaultKind, detail: str = "") -> None:
        super().__init__(f"{kind}: {detail}" if detail else kind)
        self.kind: FaultKind = kind
        self.detail = detail

    @property
    def code(self) -> str:
        """The stable code a caller sees (`protocols.errors.CODES`)."""
        return _CODES[self.kind]

    @property
    def replayable(self) -> bool:
        """The engine cannot have heard of the request: another attempt cannot be billed twice."""
        return self.kind in _UNSENT


class Deadlines(NamedTuple):
    """Seconds. `first_byte_s` runs until the first byte of the body, `idle_s` between reads, `total_s` over all."""

    connect_s: float = 2.0
    first_byte_s: float = 60.0
    idle_s: float = 30.0
    total_s: float = 600.0


class Sink(Protocol):
    """Who wants the answer: `on_unary`, or `on_stream_start` and its successors, or `on_error`.

    Exactly one of `on_unary`, `on_stream_end` and `on_error` ends an exchange, unless it was aborted: then nothing is
    called any more. Called from the event loop, never from inside `send`. Header names are in lower case and among
    HEADERS_OF_INTEREST. An answer is a stream when its content type is `text/event-stream`.
    """

    def on_unary(self, status: int, headers: Mapping[bytes, bytes], body: bytes, /) -> None: ...

    def on_stream_start(self, status: int, headers: Mapping[bytes, bytes], /) -> None: ...

    def on_stream_data(self, data: bytes, /) -> None: ...

    def on_stream_end(self) -> None:
        """The body's framing is complete; whether the stream itself is, only its events tell."""
        ...

    def on_error(self, error: UpstreamError, /) -> None: ...


class Transfer(Protocol):
    """A running exchange. All calls are safe at any time, also after the end."""

    def pause(self) -> None:
        """Stop reading from the engine; deadlines for silence rest meanwhile."""
        ...

    def resume(self) -> None: ...

    def abort(self) -> None:
        """Close the connection at once: the only way to tell an engine to stop. The sink hears nothing more."""
        ...


class Transport(Protocol):
    """The way to one endpoint."""

    def send(self, request: bytes, sink: Sink, deadlines: Deadlines) -> Transfer:
        """Start an exchange with `request`, a whole HTTP/1.1 message made by `request_head.RequestHead`."""
        ...

    @property
    def open_connections(self) -> int: ...

    def sweep(self, now: float) -> None:
        """Act on deadlines that are over at monotonic second `now`; called a few times a second."""
        ...

    def close(self) -> None:
        """Take no new work; idle connections close now, busy ones when their exchange ends."""
        ...
