"""A small HTTP/1.1 server for the fakes: callbacks on httptools, no task a request, and every way to hang up.

It serves well-meant clients only: hardening is the gateway's business, being exact about who left
and when is this one's.
"""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from collections import deque
from collections.abc import Callable
from http import HTTPStatus
from typing import cast
from urllib.parse import parse_qsl

import httptools

Header = tuple[bytes, bytes]
Handler = Callable[["Exchange"], None]

_REASONS = {status.value: status.phrase for status in HTTPStatus}
_NO_CHUNK_END = b"0\r\n\r\n"


class Exchange:
    """One request and its answer. `gone` is called at once when the client leaves before the end."""

    __slots__ = (
        "_connection",
        "body",
        "done",
        "gone",
        "headers",
        "keep_alive",
        "method",
        "path",
        "query",
        "streaming",
        "target",
    )

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.method = ""
        self.target = b""
        self.path = ""
        self.query: dict[str, str] = {}
        self.headers: list[Header] = []
        self.body = b""
        self.keep_alive = True
        self.streaming = False
        self.done = False
        self.gone: Callable[[], None] | None = None

    def header(self, name: bytes) -> str:
        """The first value of a header by its lower-case name, empty when absent."""
        for known, value in self.headers:
            if known == name:
                return value.decode("latin-1")
        return ""

    def respond(self, status: int, body: bytes, headers: tuple[Header, ...] = ()) -> None:
        """The whole answer at once."""
        if not self._open():
            return
        length = (b"content-length", b"%d" % len(body))
        self._connection.write(_head(status, (*headers, length), keep_alive=self.keep_alive) + body)
        self._finish()

    def start(self, status: int, headers: tuple[Header, ...]) -> None:
        """Head of a chunked answer."""
        if not self._open():
            return
        self.streaming = True
        chunked = (b"transfer-encoding", b"chunked")
        self._connection.write(_head(status, (*headers, chunked), keep_alive=self.keep_alive))

    def send(self, data: bytes) -> None:
        if self._open():
            self._connection.write(b"%x\r\n%b\r\n" % (len(data), data))

    def end(self) -> None:
        if self._open():
            self._connection.write(_NO_CHUNK_END)
            self._finish()

    def hang_up(self) -> None:
        """Close with a FIN, without the rest of the answer."""
        self.done, self.gone = True, None
        self._connection.close()

    def reset(self) -> None:
        """Close with an RST."""
        self.done, self.gone = True, None
        self._connection.reset()

    def _open(self) -> bool:
        return not self.done and self._connection.transport is not None

    def _finish(self) -> None:
        self.done, self.gone = True, None
        self._connection.answered(self)


class Connection(asyncio.Protocol):
    def __init__(self, handler: Handler, listener: Listener) -> None:
        self._handler = handler
        self._listener = listener
        self._parser = httptools.HttpRequestParser(self)
        self.transport: asyncio.Transport | None = None
        self._reading: Exchange | None = None
        self._active: Exchange | None = None
        self._queue: deque[Exchange] = deque()

    # asyncio.Protocol
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self._listener.connections.add(self)

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self.close()
        except httptools.HttpParserError:
            # Routers probe engine ports with other protocols; that must not hurt the engine.
            self.write(_head(400, ((b"content-length", b"0"),), keep_alive=False))
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None
        self._listener.lost(self)
        self._queue.clear()
        active, self._active = self._active, None
        if active is not None and active.gone is not None:
            gone, active.gone = active.gone, None
            gone()

    # httptools callbacks
    def on_message_begin(self) -> None:
        self._reading = Exchange(self)

    def on_url(self, url: bytes) -> None:
        assert self._reading is not None
        self._reading.target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        assert self._reading is not None
        self._reading.headers.append((name.lower(), value))

    def on_body(self, body: bytes) -> None:
        assert self._reading is not None
        self._reading.body += body

    def on_message_complete(self) -> None:
        exchange, self._reading = self._reading, None
        assert exchange is not None
        path, _, query = exchange.target.decode("latin-1").partition("?")
        exchange.method = self._parser.get_method().decode("latin-1")
        exchange.path = path
        exchange.query = dict(parse_qsl(query))
        exchange.keep_alive = self._parser.should_keep_alive()
        self._queue.append(exchange)
        self._next()

    # the answering side
    def write(self, data: bytes) -> None:
        if self.transport is not None:
            self.transport.write(data)

    def answered(self, exchange: Exchange) -> None:
        self._active = None
        if exchange.keep_alive:
            self._next()
        else:
            self.close()

    def _next(self) -> None:
        if self._active is None and self._queue:
            self._active = self._queue.popleft()
            self._handler(self._active)

    def close(self) -> None:
        if self.transport is not None:
            self.transport.close()

    def reset(self) -> None:
        if self.transport is not None:
            own = self.transport.get_extra_info("socket")
            # A copy of the descriptor, because uvloop's socket object offers no options.
            with socket.socket(fileno=os.dup(own.fileno())) as copy:
                copy.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.transport.abort()


class Listener:
    """A port that can go down and come back, with all its connections."""

    def __init__(self, handler: Handler, host: str = "127.0.0.1", port: int = 0) -> None:
        self._handler = handler
        self._host = host
        self.port = port
        self._server: asyncio.Server | None = None
        self.connections: set[Connection] = set()
        self._empty: asyncio.Future[None] | None = None

    async def open(self) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            self._connection, self._host, self.port, backlog=2048
        )
        self.port = self._server.sockets[0].getsockname()[1]

    def _connection(self) -> Connection:
        return Connection(self._handler, self)

    def lost(self, connection: Connection) -> None:
        self.connections.discard(connection)
        if self._empty is not None and not self.connections and not self._empty.done():
            self._empty.set_result(None)

    def cut(self) -> None:
        """Refuse new connections and reset the open ones, as a killed process does."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for connection in list(self.connections):
            connection.reset()

    async def close(self) -> None:
        """Cut and wait until every connection is gone."""
        server = self._server
        self.cut()
        if server is not None:
            await server.wait_closed()
        if self.connections:
            self._empty = asyncio.get_running_loop().create_future()
            await self._empty


def _head(status: int, headers: tuple[Header, ...], *, keep_alive: bool) -> bytes:
    lines = [b"HTTP/1.1 %d %b" % (status, _REASONS.get(status, "").encode())]
    lines += [name + b": " + value for name, value in headers]
    if not keep_alive:
        lines.append(b"connection: close")
    return b"\r\n".join(lines) + b"\r\n\r\n"
