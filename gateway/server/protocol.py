"""HTTP/1.1 server protocol on httptools, run inside uvicorn's shell: `uvicorn.Config(http=protocol_factory(...))`.

Hot routes go to a DirectHandler as callbacks, every other request to the ASGI application. httptools does the framing;
limits, pipelining, deadlines and closing are ours.
"""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import httptools

from gateway.protocols.errors import Refused
from gateway.server.admission import Admission
from gateway.server.asgi_cycle import AsgiCycle
from gateway.server.direct import DirectHandler
from gateway.server.http_exchange import HttpExchange, with_close
from gateway.server.limits import ServerLimits
from gateway.server.sweeper import Sweeper

if TYPE_CHECKING:
    from uvicorn import Config
    from uvicorn.server import ServerState

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class _FinalAnswer(Exception):  # noqa: N818 - control flow out of the parser
    """The connection ends with this response."""

    def __init__(self, response: bytes) -> None:
        super().__init__()
        self.response = response


class Shared(NamedTuple):
    """What the connections of a worker have in common."""

    admission: Admission
    limits: ServerLimits
    sweeper: Sweeper


class GatewayProtocol(asyncio.Protocol):
    """One client connection. `shared` is bound by `protocol_factory`, the rest is what uvicorn calls it with."""

    __slots__ = (
        "_active",
        "_app",
        "_app_state",
        "_current",
        "_draining",
        "_final",
        "_head_bytes",
        "_loop",
        "_mark",
        "_parser",
        "_peer",
        "_phase",
        "_queue",
        "_queued_bytes",
        "_state",
        "_stopping",
        "admission",
        "deadline",
        "limits",
        "stall_deadline",
        "sweeper",
        "transport",
    )

    def __init__(
        self,
        shared: Shared,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self.admission, self.limits, self.sweeper = shared
        self._app: Any = config.loaded_app
        self._app_state = app_state
        self._state = server_state
        self._loop = _loop or asyncio.get_running_loop()
        self.transport: asyncio.Transport | None = None
        self._parser: Any = None
        self._current: HttpExchange | None = None
        """The request being received."""
        self._active: HttpExchange | None = None
        """The request being answered."""
        self._queue: deque[HttpExchange] = deque()
        self._queued_bytes = self._head_bytes = self._mark = self._phase = 0
        self._draining = self._stopping = False
        self._final: bytes | None = None
        self._peer = ""
        self.deadline = monotonic() + self.limits.head_s
        self.stall_deadline = 0.0

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but name
        self.transport = transport
        connections = self._state.connections
        if len(connections) >= self.limits.connections:
            transport.write(
                with_close(self.admission.render(Refused("overloaded", retry_after_ms=1000)))
            )
            transport.close()
            return
        transport.set_write_buffer_limits(self.limits.write_high_bytes)
        self._parser = httptools.HttpRequestParser(self)
        # Typed for uvicorn's own protocols; it only calls `shutdown` (a contract test pins that).
        connections.add(self)  # type: ignore[arg-type]
        peer = transport.get_extra_info("peername")
        self._peer = peer[0] if isinstance(peer, tuple) else ""
        self.sweeper.watch(connections)

    def data_received(self, data: bytes) -> None:
        if self._draining or self._parser is None:
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._parser_failed(error.__context__)  # httptools wraps what a callback raises
            return
        current = self._current
        if current is None:
            return  # the read held whole requests
        if not current.frozen:
            self._head_bytes += len(data)
            if self._head_bytes > self.limits.header_bytes + self.limits.url_bytes:
                self._end_with(self.admission.render(Refused("headers_too_large")))
                return
        self._receiving(current)

    def eof_received(self) -> bool:
        """A client that closes its sending side is gone: it is the only sign of leaving that TCP gives."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._state.connections.discard(self)
        self.transport = None
        self._parser = self._current = None
        self._queue.clear()
        active, self._active = self._active, None
        if active is None or active.done:
            return
        active.done = True
        listener, active.listener = active.listener, None
        if listener is not None:
            listener.client_gone()
        if active.cycle is not None:
            active.cycle.disconnect()

    def pause_writing(self) -> None:
        self.stall_deadline = monotonic() + self.limits.stall_s
        active = self._active
        if active is not None:
            if active.listener is not None:
                active.listener.client_paused()
            if active.cycle is not None:
                active.cycle.set_writable(writable=False)

    def resume_writing(self) -> None:
        self.stall_deadline = 0.0
        active = self._active
        if active is not None:
            if active.listener is not None:
                active.listener.client_resumed()
            if active.cycle is not None:
                active.cycle.set_writable(writable=True)

    # httptools callbacks

    def on_message_begin(self) -> None:
        if len(self._queue) >= self.limits.pipelined:
            raise Refused("too_many_pipelined")
        self._current = HttpExchange(self)

    def on_url(self, url: bytes) -> None:
        current = self._receiving_exchange()
        current.target = url = current.target + url if current.target else url
        if len(url) > self.limits.url_bytes:
            raise Refused("uri_too_long")

    def on_header(self, name: bytes, value: bytes) -> None:
        current = self._current
        # A trailer is dropped: it could add an identity after the identity was checked.
        if current is not None and not current.frozen:
            current.headers.append((name, value))

    def on_headers_complete(self) -> None:
        exchange = self._receiving_exchange()
        exchange.frozen = True
        self._head_bytes = 0
        exchange.client = self._peer
        self.admission.read_head(exchange, self._parser)
        if self._stopping:
            exchange.keep_alive = False
        if exchange.refusal is not None:
            self._expect_little(exchange)
        elif exchange.expects and self._active is None and self.transport is not None:
            self.transport.write(_CONTINUE)

    def on_body(self, body: bytes) -> None:
        exchange = self._receiving_exchange()
        exchange.size += len(body)
        if exchange.refusal is None:
            if exchange.size + self._queued_bytes > self.limits.body_bytes:
                raise Refused("request_too_large")
            exchange.chunks.append(body)
        elif exchange.size > self.limits.refused_body_bytes:
            raise _FinalAnswer(exchange.refusal)

    def on_message_complete(self) -> None:
        exchange = self._receiving_exchange()
        chunks = exchange.chunks
        exchange.body = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        exchange.chunks = []
        self._current = None
        self.deadline, self._phase = 0.0, 0
        if self._active is None and not self._queue:
            self._start(exchange)
        else:
            self._queued_bytes += exchange.size
            self._queue.append(exchange)

    # the head

    def _receiving_exchange(self) -> HttpExchange:
        current = self._current
        if current is None:
            raise Refused("malformed_http")
        return current

    def _expect_little(self, exchange: HttpExchange) -> None:
        """A refused body is read to its end only when that is cheap and the client does not wait to be asked."""
        refusal = exchange.refusal
        length = int(exchange.singletons.get(b"content-length", b"0"))
        if refusal is not None and (exchange.expects or length > self.limits.refused_body_bytes):
            raise _FinalAnswer(refusal)

    # life of an exchange

    def _start(self, exchange: HttpExchange) -> None:
        self._active = exchange
        if exchange.refusal is not None:
            exchange.send_all(exchange.refusal)
        elif exchange.direct:
            self._handle(exchange)
        else:
            failure = self.admission.render(Refused("internal_error"), exchange)
            cycle = AsgiCycle(exchange, self._loop, failure)
            exchange.cycle = cycle
            cycle.start(self._app, self._app_state, self._state.tasks)

    def _handle(self, exchange: HttpExchange) -> None:
        try:
            self.admission.handle(exchange)
        except Refused as refused:
            self._fail(exchange, refused)
        except Exception as error:  # noqa: BLE001 - a bug costs one request; into the parser it would cost a second answer
            self._report("direct handler failed", error)
            self._fail(exchange, Refused("internal_error"))

    def _fail(self, exchange: HttpExchange, refused: Refused) -> None:
        if exchange.started:
            exchange.abort()
        else:
            exchange.send_all(self.admission.render(refused, exchange))

    def response_done(self, exchange: HttpExchange) -> None:
        """The answer is written: close, or go on with what is already here."""
        self._active = None
        self._state.total_requests += 1
        transport = self.transport
        if transport is None:
            return
        if not exchange.keep_alive:
            if exchange.refusal is not None or self._current is not None:
                self._linger()
            else:
                transport.close()
        elif self._queue:
            self._loop.call_soon(self._next)  # through the loop, or a long pipeline would recurse
        elif self._final is not None:
            self._end_with(self._final)
        elif self._current is None:
            self.deadline = monotonic() + self.limits.idle_s
        elif self._current.frozen and self._current.expects and self._current.size == 0:
            transport.write(_CONTINUE)  # it had to wait for its turn

    def _next(self) -> None:
        if self._active is None and self._queue and self.transport is not None:
            exchange = self._queue.popleft()
            self._queued_bytes -= exchange.size
            if self._stopping:
                exchange.keep_alive = False
            self._start(exchange)

    # endings

    def _parser_failed(self, cause: BaseException | None) -> None:
        if isinstance(cause, _FinalAnswer):
            self._end_with(cause.response)
            return
        if cause is not None and not isinstance(cause, Refused):
            self._report("a parser callback failed", cause)
        refused = cause if isinstance(cause, Refused) else Refused("malformed_http")
        self._end_with(self.admission.render(refused, self._current))

    def _end_with(self, response: bytes) -> None:
        """The last answer of this connection, after those that are due before it."""
        self._draining = True
        if self._active is not None or self._queue:
            self._final = response
            return
        self._final = None
        if self.transport is not None:
            self.transport.write(with_close(response))
            self._linger()

    def _linger(self) -> None:
        """Close our side and read on for a moment: closing with unread input resets and loses the answer."""
        transport = self.transport
        if transport is None:
            return
        self._draining = True
        self._current = None
        if transport.can_write_eof():
            transport.write_eof()
            self.deadline = monotonic() + self.limits.linger_s
        else:
            transport.close()

    def shutdown(self) -> None:
        """uvicorn's graceful stop: answers in progress are the last ones."""
        self._stopping = True
        if self._active is not None:
            self._active.keep_alive = False
        elif self._current is not None:
            self._current.keep_alive = False
        elif self.transport is not None:
            self.transport.close()

    def _receiving(self, current: HttpExchange) -> None:
        """Called when a read ended inside a request; a request that comes in one read needs no clock."""
        phase = 2 if current.frozen else 1
        if phase != self._phase:
            self._phase = phase
            self._mark = 0
            limits = self.limits
            self.deadline = monotonic() + (limits.body_s if current.frozen else limits.head_s)

    def on_sweep(self, now: float) -> None:
        """Called by the sweeper a few times a second."""
        transport = self.transport
        if transport is None:
            return
        if self.stall_deadline and self.stall_deadline < now:
            transport.abort()
        elif self.deadline and self.deadline < now:
            self._expired(transport, now)

    def _expired(self, transport: asyncio.Transport, now: float) -> None:
        current, limits = self._current, self.limits
        if self._draining:
            self.deadline = 0.0
            if self._active is None:
                transport.abort()
        elif current is None:
            transport.close()
        elif current.frozen and current.size - self._mark >= limits.body_rate * limits.body_s:
            self._mark = current.size
            self.deadline = now + limits.body_s
        else:
            self.deadline = 0.0
            self._end_with(self.admission.render(Refused("request_timeout"), current))

    def _report(self, message: str, error: BaseException) -> None:
        self._loop.call_exception_handler({"message": message, "exception": error})


def protocol_factory(direct: DirectHandler | None, limits: ServerLimits) -> type[GatewayProtocol]:
    """What to hand to `uvicorn.Config(http=...)`, which only calls it. State shared by connections is made here."""
    shared = Shared(Admission(direct, limits), limits, Sweeper(limits.sweep_s))
    return cast(type[GatewayProtocol], partial(GatewayProtocol, shared))
