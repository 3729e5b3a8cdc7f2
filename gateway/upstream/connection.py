"""One HTTP/1.1 connection to an engine, on httptools, with strict framing. One exchange at a time, no pipelining."""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import Any, Final, Protocol, cast

import httptools

from gateway.upstream.transport import (
    HEADERS_OF_INTEREST,
    MAX_ANSWER_BYTES,
    MAX_HEAD_BYTES,
    READ_BYTES,
    Deadlines,
    FaultKind,
    Sink,
    UpstreamError,
)

_MAX_INTERIM: Final = 8
_MAX_HEADERS: Final = 200
_FIRST_FINAL_STATUS: Final = 200
_SWITCHING: Final = 101
_BODYLESS: Final = frozenset((204, 304))
_FRAMING: Final = frozenset((b"content-length", b"transfer-encoding", b"content-encoding"))
_REPLAY_WINDOW_S: Final = 1.0

# All connections of a process read into one buffer: a read is consumed before the next one can begin.
_READ_BUFFER: Final = memoryview(bytearray(READ_BYTES))


class BadAnswerError(Exception):
    """Raised by parser callbacks to end the exchange."""

    def __init__(self, kind: FaultKind, detail: str) -> None:
        super().__init__(detail)
        self.kind: FaultKind = kind


class Owner(Protocol):
    """The pool, as a connection sees it."""

    def released(self, connection: Connection, /) -> None:
        """The exchange is over and the connection can take another."""
        ...

    def lost(self, connection: Connection, /) -> None:
        """The connection is closed or about to be."""
        ...

    def replay(self, exchange: Exchange, /) -> None:
        """Send it again, on a fresh connection."""
        ...


class Exchange:
    """One request and where its answer goes: the caller's `Transfer`. Survives a replay on another connection."""

    __slots__ = (
        "connection",
        "deadlines",
        "paused",
        "replays",
        "request",
        "sink",
        "total_deadline",
    )

    def __init__(self, request: bytes, sink: Sink, deadlines: Deadlines) -> None:
        self.request = request
        self.sink: Sink | None = sink
        self.deadlines = deadlines
        self.total_deadline = monotonic() + deadlines.total_s
        self.connection: Connection | None = None
        self.paused = False
        self.replays = 1

    def pause(self) -> None:
        if self.sink is not None and not self.paused:
            self.paused = True
            if self.connection is not None:
                self.connection.pause()

    def resume(self) -> None:
        if self.paused:
            self.paused = False
            if self.connection is not None:
                self.connection.resume()

    def abort(self) -> None:
        connection = self.connection
        self.take_sink()
        if connection is not None:
            connection.close()

    def take_sink(self) -> Sink | None:
        """End the exchange. Nobody points at anybody afterwards, so nothing waits for the collector."""
        sink, self.sink = self.sink, None
        self.connection = None
        self.request = b""
        return sink


class Connection(asyncio.BufferedProtocol):
    __slots__ = (
        "_began",
        "_chunks",
        "_complete",
        "_exchange",
        "_framed",
        "_got_bytes",
        "_head_bytes",
        "_header_count",
        "_headers",
        "_in_body",
        "_interim",
        "_keep_alive",
        "_owner",
        "_parser",
        "_size",
        "_started",
        "_status",
        "_streaming",
        "_transport",
        "deadline",
        "idle_since",
        "reused",
    )

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._transport: asyncio.Transport | None = None
        self._parser: Any = None
        self._exchange: Exchange | None = None
        self.reused = False
        self.deadline = 0.0
        """Monotonic seconds at which silence becomes a fault; 0: none runs."""
        self.idle_since = 0.0
        self._reset()

    def _reset(self) -> None:
        self._chunks: list[bytes] = []
        self._headers: dict[bytes, bytes] = {}
        self._size = self._head_bytes = self._header_count = self._interim = self._status = 0
        self._streaming = self._complete = self._got_bytes = self._in_body = False
        self._framed = self._started = False
        self._keep_alive = True

    # for the pool and the exchange

    def start(self, exchange: Exchange) -> None:
        transport = self._transport
        assert transport is not None
        self._reset()
        self._exchange = exchange
        exchange.connection = self
        self._began = began = monotonic()
        first = began + exchange.deadlines.first_byte_s
        self.deadline = min(exchange.total_deadline, first)
        transport.write(exchange.request)
        if exchange.paused:
            self.pause()

    def usable(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def pause(self) -> None:
        """Silence is the client's doing now: only the total deadline goes on."""
        if self._exchange is not None and self._transport is not None and self.usable():
            self.deadline = self._exchange.total_deadline
            self._transport.pause_reading()

    def resume(self) -> None:
        if self._transport is not None and self.usable():
            if self._exchange is not None:
                self._touch(self._exchange)
            self._transport.resume_reading()

    def close(self) -> None:
        """At once, without waiting for anything to be written: the only signal an engine understands."""
        self._exchange = None
        self.deadline = 0.0
        self._owner.lost(self)
        if self._transport is not None:
            self._transport.abort()

    def on_sweep(self, now: float) -> None:
        exchange = self._exchange
        if exchange is not None and self.deadline < now:
            kind: FaultKind = "idle_timeout" if self._size else "first_byte_timeout"
            self._fail(UpstreamError("total_timeout" if exchange.total_deadline < now else kind))

    # asyncio.BufferedProtocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but name
        self._parser = httptools.HttpResponseParser(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        return _READ_BUFFER

    def buffer_updated(self, nbytes: int) -> None:
        exchange = self._exchange
        if exchange is None:
            self.close()  # nobody asked: it would be taken for the next answer
            return
        self._got_bytes = True
        if not self._in_body:
            self._head_bytes += nbytes
        try:
            self._parser.feed_data(_READ_BUFFER[:nbytes])
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            if not self._complete:
                self._fail(_fault(error))
                return
            self._keep_alive = False  # the answer was whole; nobody asked for what follows it
        if not self._in_body and self._head_bytes > MAX_HEAD_BYTES:
            self._fail(UpstreamError("too_large", "headers"))
        elif self._in_body:
            self._deliver(exchange)

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._parser = None
        self._owner.lost(self)
        exchange = self._exchange
        if exchange is None:
            return
        if self._may_replay(exchange):
            self._exchange = exchange.connection = None
            exchange.replays -= 1
            self._owner.replay(exchange)
        else:
            self._fail(UpstreamError("connection_lost", type(exc).__name__ if exc else "end"))

    # httptools callbacks; those not defined cost nothing

    def on_message_begin(self) -> None:
        if self._complete:
            raise BadAnswerError("framing", "a second answer")

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_body:
            return  # a trailer
        self._header_count += 1
        if self._header_count > _MAX_HEADERS:
            raise BadAnswerError("too_large", "headers")
        name = name.lower()
        if name in HEADERS_OF_INTEREST:
            self._headers[name] = value
        elif name in _FRAMING:
            self._see_framing(name, value.lower())

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < _FIRST_FINAL_STATUS:
            self._see_interim(status)
            return
        self._status = status
        self._in_body = True
        # Only true here: the parser forgets its flags at the end of the message.
        self._keep_alive = self._parser.should_keep_alive()
        if not self._framed and status not in _BODYLESS:
            raise BadAnswerError("framing", "neither length nor chunks: a cut could not be told")
        media = self._headers.get(b"content-type", b"")[:17]
        self._streaming = media.lower() == b"text/event-stream"

    def on_body(self, body: bytes) -> None:
        self._chunks.append(body)
        self._size += len(body)
        if self._size > MAX_ANSWER_BYTES and not self._streaming:
            raise BadAnswerError("too_large", "body")

    def on_message_complete(self) -> None:
        if self._in_body:  # an interim answer is a complete message to the parser, not to us
            self._complete = True

    # inside

    def _see_framing(self, name: bytes, value: bytes) -> None:
        if name == b"content-encoding":
            if value != b"identity":
                raise BadAnswerError("framing", "a content coding nobody asked for")
            return
        if name == b"transfer-encoding" and value != b"chunked":
            raise BadAnswerError("framing", "an unknown transfer coding")
        if self._framed:
            raise BadAnswerError("framing", "two framings")
        self._framed = True

    def _see_interim(self, status: int) -> None:
        self._interim += 1
        self._framed = False
        self._headers = {}
        if self._interim > _MAX_INTERIM or status == _SWITCHING:
            raise BadAnswerError("framing", "interim answers")

    def _may_replay(self, exchange: Exchange) -> bool:
        """The engine closed a connection it thought idle: a race, told by its being fast and silent."""
        fast = monotonic() - self._began < _REPLAY_WINDOW_S
        return self.reused and not self._got_bytes and exchange.replays > 0 and fast

    def _touch(self, exchange: Exchange) -> None:
        idle = monotonic() + exchange.deadlines.idle_s
        self.deadline = min(exchange.total_deadline, idle)

    def _deliver(self, exchange: Exchange) -> None:
        if self._streaming:
            self._deliver_stream(exchange)
        elif self._complete:
            self._finish(exchange)
        elif self._size:
            self._touch(exchange)

    def _deliver_stream(self, exchange: Exchange) -> None:
        sink = exchange.sink
        if sink is None:
            return
        if not self._started:
            self._started = True
            sink.on_stream_start(self._status, self._headers)
        if self._chunks and exchange.sink is sink:
            chunks, self._chunks = self._chunks, []
            if not exchange.paused:
                self._touch(exchange)
            sink.on_stream_data(chunks[0] if len(chunks) == 1 else b"".join(chunks))
        if self._complete and exchange.sink is sink:
            self._finish(exchange)

    def _finish(self, exchange: Exchange) -> None:
        status, headers, chunks, streaming = (
            self._status, self._headers, self._chunks, self._streaming,
        )  # fmt: skip
        sink = exchange.take_sink()
        # First free, then told: the sink may send its next request at once.
        self._release(paused=exchange.paused)
        if sink is None:
            return
        if streaming:
            sink.on_stream_end()
        else:
            sink.on_unary(status, headers, chunks[0] if len(chunks) == 1 else b"".join(chunks))

    def _release(self, *, paused: bool) -> None:
        self._exchange = None
        self.deadline = 0.0
        transport = self._transport
        if transport is None:
            return
        if self._keep_alive and not transport.is_closing():
            if paused:
                transport.resume_reading()
            self._owner.released(self)
        else:
            self._owner.lost(self)
            transport.close()

    def _fail(self, error: UpstreamError) -> None:
        exchange = self._exchange
        self.close()
        sink = exchange.take_sink() if exchange is not None else None
        if sink is not None:
            sink.on_error(error)


def _fault(error: BaseException) -> UpstreamError:
    cause = error.__context__  # httptools wraps what a callback raises
    if isinstance(cause, BadAnswerError):
        return UpstreamError(cause.kind, str(cause))
    return UpstreamError("framing", type(error).__name__)
