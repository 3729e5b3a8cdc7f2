"""An exchange of the own protocol class: answers are written straight to the transport."""

from __future__ import annotations

import asyncio
from typing import Protocol

from gateway.server.exchange import Exchange

_CLOSE = b"\r\nconnection: close\r\n"


def with_close(response: bytes) -> bytes:
    """The same response (or head) with `connection: close`."""
    return response.replace(b"\r\n", _CLOSE, 1)


class Connection(Protocol):
    """What an exchange needs of the connection it came on."""

    transport: asyncio.Transport | None

    def response_done(self, exchange: HttpExchange, /) -> None: ...


class Cycle(Protocol):
    """The ASGI side of an exchange (`asgi_cycle.AsgiCycle`)."""

    def disconnect(self) -> None: ...

    def set_writable(self, *, writable: bool) -> None: ...


class HttpExchange(Exchange):
    __slots__ = (
        "_connection",
        "chunked",
        "chunks",
        "cycle",
        "direct",
        "expects",
        "frozen",
        "http_10",
        "keep_alive",
        "refusal",
        "size",
        "target",
    )

    def __init__(self, connection: Connection) -> None:
        super().__init__()
        self._connection = connection
        self.target = b""
        self.direct = False
        """A hot route: answered by the DirectHandler."""
        self.chunks: list[bytes] = []
        self.size = 0
        """Header bytes until the head is complete, body bytes afterwards."""
        self.frozen = False
        """The head is complete: what follows through `on_header` are trailers."""
        self.expects = False
        self.refusal: bytes | None = None
        """Rendered at once. An exception kept here would keep its frames, and they this exchange: a cycle."""
        self.keep_alive = True
        self.http_10 = False
        self.chunked = True
        self.cycle: Cycle | None = None

    def send_all(self, response: bytes) -> None:
        if self.done:
            return
        self.done = True
        self.listener = None  # exchange -> relay -> exchange must not outlive the answer
        connection = self._connection
        transport = connection.transport
        if transport is not None:
            transport.write(response if self.keep_alive else with_close(response))
            connection.response_done(self)

    def send_head(self, head: bytes) -> None:
        transport = self._connection.transport
        if self.done or transport is None:
            return
        self.started = True
        if self.http_10 and self.chunked:
            # No chunked coding there: the end of the connection is the end of the body.
            self.chunked = False
            head = head.replace(b"transfer-encoding: chunked\r\n", b"", 1)
        transport.write(head if self.keep_alive else with_close(head))

    def send_chunk(self, data: bytes) -> None:
        transport = self._connection.transport
        if not self.done and transport is not None:
            transport.write(b"%x\r\n%b\r\n" % (len(data), data) if self.chunked else data)

    def finish(self) -> None:
        if self.done:
            return
        self.done = True
        self.listener = None
        connection = self._connection
        if connection.transport is not None:
            if self.chunked:
                connection.transport.write(b"0\r\n\r\n")
            connection.response_done(self)

    def abort(self) -> None:
        if self.done:
            return
        self.done = True
        self.listener = None
        transport = self._connection.transport
        if transport is None:
            return
        if self.chunked:
            transport.close()  # what was written still goes out; the missing last chunk tells
        else:
            transport.abort()  # only a reset tells
