"""The same hot routes as plain ASGI, for any server: the door behind `ACE_HTTP=uvicorn`.

Costs about 30 µs a request more than the own protocol class and behaves alike; the same tests run against both.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import MutableMapping
from typing import Any, Final

from gateway.protocols.errors import Refused
from gateway.server import headers as rules
from gateway.server.asgi_cycle import Application, Message, Receive, Send
from gateway.server.direct import DirectHandler
from gateway.server.exchange import Exchange
from gateway.server.http_exchange import with_close
from gateway.server.limits import ServerLimits

_HIGH_BYTES: Final = 64 << 10

# After these the connection's framing is beyond doubt; after any other refusal it is closed.
_KEEPABLE: Final = frozenset((401, 404, 405, 415))


class AsgiExchange(Exchange):
    """Collects what the handler sends; `AsgiDoor` forwards it as fast as the client reads."""

    __slots__ = ("_held", "_paused", "_pieces", "_wake", "aborted")

    def __init__(self) -> None:
        super().__init__()
        self._pieces: deque[bytes] = deque()
        self._held = 0
        self._paused = False
        self._wake = asyncio.Event()
        self.aborted = False

    def send_all(self, response: bytes) -> None:
        self._add(response, last=True)

    def send_head(self, head: bytes) -> None:
        self.started = True
        self._add(head)

    def send_chunk(self, data: bytes) -> None:
        self._add(data)

    def finish(self) -> None:
        self._end()

    def abort(self) -> None:
        self.aborted = True
        self._end()

    def client_left(self) -> None:
        if self.done:
            return
        listener = self.listener
        self._end()
        if listener is not None:
            listener.client_gone()

    async def next(self) -> bytes | None:
        """The next piece, or None at the end. Taking it makes room."""
        while not self._pieces:
            if self.done:
                return None
            self._wake.clear()
            await self._wake.wait()
        piece = self._pieces.popleft()
        self._held -= len(piece)
        if self._paused and not self._held:
            self._paused = False
            if self.listener is not None:
                self.listener.client_resumed()
        return piece

    def _add(self, piece: bytes, *, last: bool = False) -> None:
        if self.done:
            return
        self._pieces.append(piece)
        self._held += len(piece)
        if last:
            self._end()
            return
        self._wake.set()
        if self._held > _HIGH_BYTES and not self._paused and self.listener is not None:
            self._paused = True
            self.listener.client_paused()

    def _end(self) -> None:
        self.done = True
        self.listener = None
        self._wake.set()


class AsgiDoor:
    """ASGI application: strict heads for every route, the DirectHandler for hot ones, `app` for the rest."""

    def __init__(self, app: Application, direct: DirectHandler, limits: ServerLimits) -> None:
        self._app = app
        self._direct = direct
        self._limits = limits

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        exchange = AsgiExchange()
        try:
            hot = self._admit(exchange, scope)
            if hot:
                exchange.body = await self._body(receive)
        except Refused as refused:
            response = self._direct.render_refusal(refused, exchange)
            keep = refused.status in _KEEPABLE
            await _respond(send, response if keep else with_close(response))
            return
        if hot:
            await self._serve(exchange, receive, send)
        else:
            scope["headers"] = [
                pair
                for pair in exchange.headers
                if not pair[0].startswith(rules.UNTRUSTED_PREFIXES)
            ]
            await self._app(scope, receive, send)

    def _admit(self, exchange: AsgiExchange, scope: MutableMapping[str, Any]) -> bool:
        exchange.method = scope["method"].encode()
        if scope["http_version"] not in ("1.0", "1.1"):
            raise Refused("http_version_not_supported")
        client = scope.get("client")
        exchange.client = client[0] if client else ""
        self._read_headers(exchange, scope["headers"])
        rules.check_host(exchange.singletons, self._limits.allowed_hosts)
        rules.check_framing(exchange.singletons, self._limits.body_bytes)
        rules.expects_continue(exchange.singletons)
        exchange.raw_path, exchange.query = rules.split_target(_target(scope))
        if len(exchange.raw_path) + len(exchange.query) > self._limits.url_bytes:
            raise Refused("uri_too_long")
        if exchange.method not in rules.METHODS:
            raise Refused("not_implemented")
        if exchange.raw_path not in self._direct.routes:
            return False
        if exchange.method != b"POST":
            raise Refused("method_not_allowed", headers=((b"allow", b"POST"),))
        exchange.identity = self._direct.identify(exchange)
        rules.check_json(exchange.singletons)
        return True

    def _read_headers(self, exchange: AsgiExchange, pairs: list[tuple[bytes, bytes]]) -> None:
        limits = self._limits
        size = sum(len(name) + len(value) for name, value in pairs)
        if len(pairs) > limits.header_count or size > limits.header_bytes:
            raise Refused("headers_too_large")
        exchange.headers = [pair for pair in pairs if b"_" not in pair[0]]
        for name, value in exchange.headers:
            if name == b"upgrade":
                raise Refused("upgrade_refused")
            if name in rules.SINGLETONS:
                if name in exchange.singletons:
                    raise Refused("duplicate_header")
                exchange.singletons[name] = value

    async def _body(self, receive: Receive) -> bytes:
        chunks: list[bytes] = []
        size = 0
        more = True
        try:
            async with asyncio.timeout(self._limits.body_s):
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise Refused("invalid_request")
                    chunk = message.get("body", b"")
                    size += len(chunk)
                    if size > self._limits.body_bytes:
                        raise Refused("request_too_large")
                    chunks.append(chunk)
                    more = message.get("more_body", False)
        except TimeoutError:
            raise Refused("request_timeout") from None
        return b"".join(chunks)

    async def _serve(self, exchange: AsgiExchange, receive: Receive, send: Send) -> None:
        loop = asyncio.get_running_loop()
        try:
            self._direct.handle(exchange)
        except Refused as refused:
            exchange.send_all(self._direct.render_refusal(refused, exchange))
        except Exception as error:  # noqa: BLE001 - a bug costs one request
            loop.call_exception_handler({"message": "direct handler failed", "exception": error})
            if exchange.started:
                exchange.abort()
            exchange.send_all(self._direct.render_refusal(Refused("internal_error"), exchange))
        watcher = loop.create_task(_watch(exchange, receive))
        try:
            await _forward(exchange, send)
        finally:
            watcher.cancel()
            exchange.client_left()


async def _watch(exchange: AsgiExchange, receive: Receive) -> None:
    """ASGI tells of a client that left only to those who ask."""
    message: Message = {"type": ""}
    while message["type"] != "http.disconnect":
        message = await receive()
    exchange.client_left()


async def _forward(exchange: AsgiExchange, send: Send) -> None:
    head = await exchange.next()
    if head is None:
        return
    if not exchange.started:
        await _respond(send, head)
        return
    await send(_start(head.removesuffix(b"\r\n\r\n")))
    while (piece := await exchange.next()) is not None:
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    if exchange.aborted:
        raise ConnectionAbortedError(
            "answer cut short"
        )  # the server then closes without a last chunk
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _respond(send: Send, response: bytes) -> None:
    head, _, body = response.partition(b"\r\n\r\n")
    await send(_start(head))
    await send({"type": "http.response.body", "body": body, "more_body": False})


def _start(head: bytes) -> Message:
    status_line, *lines = head.split(b"\r\n")
    pairs = [line.partition(b": ") for line in lines]
    return {
        "type": "http.response.start",
        "status": int(status_line.split(b" ", 2)[1]),
        "headers": [(name, value) for name, _, value in pairs if name != b"transfer-encoding"],
    }


def _target(scope: MutableMapping[str, Any]) -> bytes:
    query = scope.get("query_string", b"")
    path: bytes = scope["raw_path"]
    return path + b"?" + query if query else path
