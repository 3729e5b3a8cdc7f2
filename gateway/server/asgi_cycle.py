"""Plain ASGI over an exchange whose request is complete: every route that is not hot."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any, Final
from urllib.parse import unquote

from gateway.protocols.errors import reason_phrase
from gateway.server.headers import UNTRUSTED_PREFIXES
from gateway.server.http_exchange import HttpExchange

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

_NAME: Final = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_UNSAFE: Final = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
_BODYLESS: Final = frozenset((204, 304))


class AsgiCycle:
    """Runs the application as a task. A failure before the first byte becomes `failure`, later an aborted body."""

    __slots__ = (
        "_exchange",
        "_failure",
        "_given",
        "_gone",
        "_head",
        "_loop",
        "_status",
        "_wake",
        "_writable",
    )

    def __init__(
        self, exchange: HttpExchange, loop: asyncio.AbstractEventLoop, failure: bytes
    ) -> None:
        self._exchange = exchange
        self._loop = loop
        self._failure = failure
        self._given = False
        self._gone = False
        self._status = 0
        self._head: list[tuple[bytes, bytes]] | None = None
        self._wake: asyncio.Future[None] | None = None
        self._writable = asyncio.Event()
        self._writable.set()

    def start(
        self, app: Application, state: dict[str, Any], tasks: set[asyncio.Task[None]]
    ) -> None:
        task = self._loop.create_task(self._run(app, _scope(self._exchange, state)))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    def disconnect(self) -> None:
        self._gone = True
        self._writable.set()
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    def set_writable(self, *, writable: bool) -> None:
        if writable:
            self._writable.set()
        else:
            self._writable.clear()

    async def _run(self, app: Application, scope: dict[str, Any]) -> None:
        exchange = self._exchange
        try:
            await app(scope, self._receive, self._send)
        except Exception as error:  # noqa: BLE001 - an application's bug costs one request
            self._loop.call_exception_handler(
                {"message": "ASGI application failed", "exception": error}
            )
        finally:
            exchange.cycle = None
            if not exchange.done:
                if exchange.started:
                    exchange.abort()
                else:
                    exchange.send_all(self._failure)

    async def _receive(self) -> Message:
        if not self._given:
            self._given = True
            return {"type": "http.request", "body": self._exchange.body, "more_body": False}
        if not self._gone and not self._exchange.done:
            self._wake = self._loop.create_future()
            await self._wake
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        if self._gone:
            return
        await self._writable.wait()
        if message["type"] == "http.response.start":
            self._status = message["status"]
            self._head = _checked(message.get("headers", ()))
        elif message["type"] == "http.response.body":
            self._send_body(message.get("body", b""), more=message.get("more_body", False))

    def _send_body(self, body: bytes, *, more: bool) -> None:
        exchange = self._exchange
        if self._head is None:
            raise RuntimeError("response body before response start")
        silent = exchange.method == b"HEAD" or self._status in _BODYLESS
        if not exchange.started:
            head = self._render_head(None if more else len(body), silent=silent)
            if not more:
                exchange.send_all(head if silent else head + body)
                return
            exchange.send_head(head)
        if body and not silent:
            exchange.send_chunk(body)
        if not more:
            exchange.finish()

    def _render_head(self, length: int | None, *, silent: bool) -> bytes:
        """`length` None: the body comes in pieces. A length the application gave is its promise and is kept."""
        given = any(name == b"content-length" for name, _ in self._head or ())
        lines = [b"HTTP/1.1 %d %b\r\n" % (self._status, reason_phrase(self._status))]
        lines += [b"%b: %b\r\n" % pair for pair in self._head or ()]
        if given or (silent and length is None):
            self._exchange.chunked = False
        elif length is None:
            lines.append(b"transfer-encoding: chunked\r\n")
        elif self._status not in _BODYLESS:
            lines.append(b"content-length: %d\r\n" % length)
        return b"".join((*lines, b"\r\n"))


def _checked(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Names in lower case; hop-by-hop headers are ours to write."""
    checked = []
    for name, value in headers:
        if not _NAME.fullmatch(name) or _UNSAFE.search(value):
            raise ValueError("response header that cannot be sent")
        lower = name.lower()
        if lower not in (b"connection", b"transfer-encoding"):
            checked.append((lower, value))
    return checked


def _scope(exchange: HttpExchange, state: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.0" if exchange.http_10 else "1.1",
        "method": exchange.method.decode("ascii"),
        "scheme": "http",
        "path": unquote(exchange.raw_path.decode("ascii")),
        "raw_path": exchange.raw_path,
        "query_string": exchange.query,
        "root_path": "",
        "headers": [
            pair for pair in exchange.headers if not pair[0].startswith(UNTRUSTED_PREFIXES)
        ],
        "client": (exchange.client, 0) if exchange.client else None,
        "server": None,
        "state": state.copy(),
    }
