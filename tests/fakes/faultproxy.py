"""A TCP proxy that makes a network go wrong: between gateway and engine, or in front of Redis and PostgreSQL.

    async with FaultProxy("127.0.0.1", engine.port) as proxy:
        proxy.set(latency_ms=200, jitter_ms=50)
        ... connect to proxy.port ...

Faults act on what the server sends back, except `down`, `latency_ms` and `timeout`, which act both ways. They
may be changed at any time and hold from the next piece of data on. `events` faults count SSE events, that is
blank lines in the answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
from random import Random
from types import TracebackType
from typing import Any, Self

import msgspec

from tests.fakes.engine.options import changed

READ_BYTES = 65536
EVENT_END = b"\n\n"


class Toxics(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What goes wrong. All off at first."""

    latency_ms: float = 0.0
    jitter_ms: float = 0.0
    """Each piece is late by latency plus or minus up to this."""
    bandwidth_bytes_per_s: int = 0
    """0: no limit."""
    slice_bytes: int = 0
    """Pass on in pieces of this size, each in a packet of its own; 0: as it comes."""
    slice_delay_ms: float = 0.0
    limit_bytes: int | None = None
    """Close after that many bytes of answer on a connection."""
    slow_close_ms: float = 0.0
    """Delay of the close after the server has closed."""
    timeout: bool = False
    """Swallow everything, both ways, and leave connections open."""
    reset: bool = False
    """Reset each connection at its first byte of answer."""
    status: int = 0
    """Replace the status code in the head of HTTP answers."""
    garbage_header: bool = False
    """Put a header line without a colon and with control bytes into the head of HTTP answers."""
    eof_after_events: int | None = None
    """Close politely after that many SSE events, mid-answer."""
    reset_after_events: int | None = None


class _Cut(Exception):  # noqa: N818 - a decision, not an error
    def __init__(self, *, reset: bool) -> None:
        super().__init__(reset)
        self.reset = reset


class FaultProxy:
    """One listening port before one server."""

    def __init__(self, host: str, port: int, *, seed: int = 0) -> None:
        self._target = (host, port)
        self._dice = Random(seed)
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._serving: set[asyncio.Task[None]] = set()
        self.toxics = Toxics()
        self.port = 0
        self.accepted = 0

    async def __aenter__(self) -> Self:
        await self.up()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.down()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def set(self, **fields: Any) -> None:
        """Change some toxics and leave the others as they are.

        Raises:
            msgspec.ValidationError: There is no such toxic, or its value is of the wrong type.
        """
        self.toxics = changed(self.toxics, fields)

    def clear(self) -> None:
        self.toxics = Toxics()

    async def up(self) -> None:
        """Listen, on the same port as before."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def down(self) -> None:
        """Refuse new connections and reset the open ones."""
        if self._server is None:
            return
        server, self._server = self._server, None
        server.close()
        for writer in list(self._writers):
            _reset(writer)
        await server.wait_closed()
        await asyncio.gather(*self._serving, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        self._writers.add(writer)
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)
        try:
            far_reader, far_writer = await asyncio.open_connection(*self._target)
        except OSError:
            _reset(writer)
            self._writers.discard(writer)
            return
        self._writers.add(far_writer)
        pumps = [
            asyncio.ensure_future(self._forwards(reader, far_writer)),
            asyncio.ensure_future(_Backwards(self, far_reader, writer).run()),
        ]
        # Either side's end is the connection's end: a client that leaves must be felt by the server at once.
        await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        for pump in pumps:
            pump.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)
        for end in (writer, far_writer):
            end.close()
            self._writers.discard(end)

    async def _forwards(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(READ_BYTES):
                await self.delay()
                if not self.toxics.timeout:
                    writer.write(data)
                    await writer.drain()

    async def delay(self) -> None:
        toxics = self.toxics
        if toxics.latency_ms or toxics.jitter_ms:
            late_ms = toxics.latency_ms + self._dice.uniform(-toxics.jitter_ms, toxics.jitter_ms)
            await asyncio.sleep(max(0.0, late_ms) / 1e3)


class _Backwards:
    """From the server to the client, where most toxics are."""

    def __init__(
        self, proxy: FaultProxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._proxy = proxy
        self._reader = reader
        self._writer = writer
        self._passed = 0
        self._events = 0
        self._tail = b""

    async def run(self) -> None:
        try:
            with contextlib.suppress(OSError):
                while data := await self._reader.read(READ_BYTES):
                    await self._proxy.delay()
                    await self._pass(self._changed(data))
            await asyncio.sleep(self._proxy.toxics.slow_close_ms / 1e3)
        except _Cut as cut:
            if cut.reset:
                _reset(self._writer)

    async def _pass(self, data: bytes) -> None:
        toxics = self._proxy.toxics
        if toxics.timeout:
            return
        if toxics.reset:
            raise _Cut(reset=True)
        allowed, cut = self._allowed(data)
        size = toxics.slice_bytes or len(allowed) or 1
        for start in range(0, len(allowed), size):
            await self._write(allowed[start : start + size])
            if toxics.slice_delay_ms:
                await asyncio.sleep(toxics.slice_delay_ms / 1e3)
        if cut is not None:
            raise cut

    async def _write(self, piece: bytes) -> None:
        toxics = self._proxy.toxics
        self._writer.write(piece)
        await self._writer.drain()
        self._passed += len(piece)
        if toxics.bandwidth_bytes_per_s:
            await asyncio.sleep(len(piece) / toxics.bandwidth_bytes_per_s)

    def _allowed(self, data: bytes) -> tuple[bytes, _Cut | None]:
        """The part of `data` that may pass, and how the connection ends after it, if it does."""
        toxics = self._proxy.toxics
        if toxics.limit_bytes is not None and self._passed + len(data) >= toxics.limit_bytes:
            return data[: toxics.limit_bytes - self._passed], _Cut(reset=False)
        for limit, reset in ((toxics.eof_after_events, False), (toxics.reset_after_events, True)):
            if limit is not None:
                end = self._end_of_event(data, limit)
                if end is not None:
                    return data[:end], _Cut(reset=reset)
        self._events += (self._tail + data).count(EVENT_END)
        self._tail = data[-1:] if data.endswith(b"\n") and not data.endswith(EVENT_END) else b""
        return data, None

    def _end_of_event(self, data: bytes, limit: int) -> int | None:
        """Where in `data` event number `limit` ends, None when it does not."""
        seen, at = self._events, 0
        joined = self._tail + data
        while seen < limit:
            found = joined.find(EVENT_END, at)
            if found < 0:
                return None
            seen, at = seen + 1, found + len(EVENT_END)
        return max(0, at - len(self._tail))

    def _changed(self, data: bytes) -> bytes:
        """HTTP heads rewritten; an answer's head is taken to come in one piece, as the fakes send it."""
        toxics = self._proxy.toxics
        if not data.startswith(b"HTTP/1.1 "):
            return data
        if toxics.status:
            data = b"HTTP/1.1 %d Changed" % toxics.status + data[data.index(b"\r\n") :]
        if toxics.garbage_header:
            data = data.replace(b"\r\n", b"\r\nno colon \x00\x01 here\r\n", 1)
        return data


def _reset(writer: asyncio.StreamWriter) -> None:
    own = writer.get_extra_info("socket")
    if own is not None and own.fileno() >= 0:
        with socket.socket(fileno=os.dup(own.fileno())) as copy:
            copy.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
