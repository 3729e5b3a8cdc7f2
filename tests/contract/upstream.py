"""A scripted engine: says exactly the bytes it is told to, and remembers what it was asked."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from typing import Self

Script = Callable[["Call"], Awaitable[None]]


class Call:
    """One connection's turn: the request it read, and the way back."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes
    ) -> None:
        self.reader = reader
        self.writer = writer
        self.request = request

    async def say(self, *pieces: bytes) -> None:
        for piece in pieces:
            self.writer.write(piece)
            await self.writer.drain()

    def reset(self) -> None:
        self.writer.transport.abort()


class ScriptedUpstream:
    """`scripts` are used up one a request; the last one stays."""

    def __init__(self, *scripts: Script, tls: ssl.SSLContext | None = None) -> None:
        self._scripts = list(scripts)
        self._tls = tls
        self.requests: list[bytes] = []
        self.connections = 0
        self.closed = asyncio.Event()
        """Set when a connection is closed from the other side."""
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.sleep(0.02)  # a connection just accepted gets its handler, and so its end
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.sleep(0.02)  # both sides learn of it before the loop closes

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.add(writer)
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while True:
                request = await _read_request(reader)
                self.requests.append(request)
                script = self._scripts.pop(0) if len(self._scripts) > 1 else self._scripts[0]
                await script(Call(reader, writer, request))
                if writer.is_closing():
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            self.closed.set()
        except asyncio.CancelledError:
            pass  # by `__aexit__`; asyncio's own callback cannot bear a cancelled handler
        finally:
            writer.close()


async def _read_request(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    length = 0
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            length = int(line[15:])
    return head + await reader.readexactly(length)


def says(*pieces: bytes) -> Script:
    async def script(call: Call) -> None:
        await call.say(*pieces)

    return script


def says_then_closes(*pieces: bytes) -> Script:
    async def script(call: Call) -> None:
        await call.say(*pieces)
        call.writer.close()

    return script


def says_then_resets(*pieces: bytes) -> Script:
    async def script(call: Call) -> None:
        await call.say(*pieces)
        await asyncio.sleep(0.05)
        call.reset()

    return script


def says_then_hangs(*pieces: bytes) -> Script:
    async def script(call: Call) -> None:
        await call.say(*pieces)
        if await call.reader.read(1) == b"":
            raise asyncio.IncompleteReadError(b"", 1)

    return script


def answer(body: bytes, status: bytes = b"200 OK", *lines: bytes) -> bytes:
    extra = b"".join(line + b"\r\n" for line in lines)
    return b"HTTP/1.1 %b\r\ncontent-type: application/json\r\n%bcontent-length: %d\r\n\r\n%b" % (
        status,
        extra,
        len(body),
        body,
    )


STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
)
LAST_CHUNK = b"0\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)
