"""Steady load on one gateway from keep-alive connections: an open loop, so that a slow answer delays no other request.

Answers are kept whole: status, headers, body, and when each began and ended. The client is small on purpose; httpx
costs more per request than the gateway under test.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import httptools


@dataclass
class Answer:
    """`error` is set when no whole answer came; times are of the wall clock in seconds."""

    status: int = 0
    headers: list[tuple[str, str]] = field(default_factory=list)
    body: bytes = b""
    error: str = ""
    connection: int = 0
    began: float = 0.0
    ended: float = 0.0
    complete: bool = False

    @property
    def ok(self) -> bool:
        return not self.error and self.status == 200

    def header(self, name: str) -> str:
        """The only value of a header; '' when absent, an error when it came twice."""
        values = [value for key, value in self.headers if key == name]
        assert len(values) <= 1, f"{name} came {len(values)} times"
        return values[0] if values else ""


class Connection:
    """One keep-alive connection, one request at a time; opened anew after it broke."""

    def __init__(self, port: int, number: int = 0) -> None:
        self._port, self.number = port, number
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def ask(self, request: bytes) -> Answer:
        answer = Answer(connection=self.number, began=time.time())
        try:
            if self._writer is None:
                self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
            self._writer.write(request)
            await self._read(answer)
        except (OSError, httptools.HttpParserError) as error:
            answer.error = f"{type(error).__name__}: {error}"
        answer.ended = time.time()
        if answer.error or answer.header("connection") == "close":
            self.close()
        return answer

    async def _read(self, answer: Answer) -> None:
        parser = httptools.HttpResponseParser(_Collector(answer))
        assert self._reader is not None
        while not answer.complete:
            data = await self._reader.read(65536)
            if not data:
                raise ConnectionError("closed before the answer was whole")
            parser.feed_data(data)
            if answer.status == 0:
                answer.status = parser.get_status_code()

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
        self._reader = self._writer = None


class _Collector:
    def __init__(self, answer: Answer) -> None:
        self._answer = answer

    def on_header(self, name: bytes, value: bytes) -> None:
        self._answer.headers.append((name.decode().lower(), value.decode()))

    def on_body(self, data: bytes) -> None:
        self._answer.body += data

    def on_message_complete(self) -> None:
        self._answer.complete = True


def chat_request(key: str, model: str, text: str = "Say something.", **fields: Any) -> bytes:
    """The bytes of one chat completion request."""
    document = {"model": model, "messages": [{"role": "user", "content": text}], **fields}
    body = json.dumps(document).encode()
    head = (
        "POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
        f"authorization: Bearer {key}\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


@dataclass
class Load:
    """`per_s` requests a second over `connections`; `request` gives the bytes of request number n."""

    port: int
    request: Callable[[int], bytes]
    per_s: float
    connections: int = 32
    answers: list[Answer] = field(default_factory=list)

    async def run(self, seconds: float, beside: Awaitable[None] | None = None) -> list[Answer]:
        """Sends for `seconds`, waits for all answers and for `beside`, which runs meanwhile."""
        idle: asyncio.Queue[Connection] = asyncio.Queue()
        for number in range(self.connections):
            idle.put_nowait(Connection(self.port, number))
        companion = asyncio.ensure_future(beside) if beside is not None else None
        await self._send(idle, seconds)
        if companion is not None:
            await companion
        while not idle.empty():
            idle.get_nowait().close()
        return self.answers

    async def _send(self, idle: asyncio.Queue[Connection], seconds: float) -> None:
        began = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for number in range(int(seconds * self.per_s)):
                await asyncio.sleep(max(0.0, began + number / self.per_s - time.monotonic()))
                group.create_task(self._one(idle, self.request(number)))

    async def _one(self, idle: asyncio.Queue[Connection], request: bytes) -> None:
        connection = await idle.get()
        try:
            self.answers.append(await connection.ask(request))
        finally:
            idle.put_nowait(connection)


def sse_data(body: bytes) -> Iterator[dict[str, Any]]:
    """The JSON documents of a streamed answer, without the closing [DONE]."""
    for line in body.decode().splitlines():
        if line.startswith("data:") and "[DONE]" not in line:
            yield json.loads(line[5:])
