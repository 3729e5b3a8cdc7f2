"""The same transport on httpx: for forward proxies and HTTP/2, off by default. It costs many times the own client.

Needs tasks where the own client has callbacks, and cannot see unsolicited bytes; otherwise it keeps the same contract.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from time import monotonic
from typing import Final

import httpx

from gateway.upstream.request_head import Address
from gateway.upstream.transport import (
    HEADERS_OF_INTEREST,
    MAX_ANSWER_BYTES,
    READ_BYTES,
    Deadlines,
    FaultKind,
    Sink,
    UpstreamError,
)

_BODYLESS: Final = frozenset((204, 304))
_VERSIONS: Final = frozenset(("HTTP/1.0", "HTTP/1.1", "HTTP/2"))


class HttpxExchange:
    """A running exchange; deadlines are watched by `HTTPXTransport.sweep`."""

    def __init__(self, sink: Sink, deadlines: Deadlines) -> None:
        self.sink: Sink | None = sink
        self.deadlines = deadlines
        self.total_deadline = monotonic() + deadlines.total_s
        self.deadline = min(
            monotonic() + deadlines.connect_s + deadlines.first_byte_s, self.total_deadline
        )
        self.got_body = False
        self.task: asyncio.Task[None] | None = None
        self._flowing = asyncio.Event()
        self._flowing.set()

    def pause(self) -> None:
        self._flowing.clear()
        self.deadline = self.total_deadline

    def resume(self) -> None:
        if not self._flowing.is_set():
            self._flowing.set()
            self.touch()

    def abort(self) -> None:
        self.sink = None
        if self.task is not None:
            self.task.cancel()

    def touch(self) -> None:
        if self._flowing.is_set():
            self.deadline = min(monotonic() + self.deadlines.idle_s, self.total_deadline)

    async def flowing(self) -> None:
        await self._flowing.wait()

    def fail(self, kind: FaultKind, detail: str = "") -> None:
        sink, self.sink = self.sink, None
        if sink is not None:
            sink.on_error(UpstreamError(kind, detail))


class HTTPXTransport:
    """The way to one endpoint, through `proxy` if given."""

    def __init__(
        self,
        address: Address,
        *,
        proxy: str | None = None,
        http2: bool = False,
        tls: ssl.SSLContext | None = None,
        limit: int = 1024,
    ) -> None:
        scheme = "https" if address.tls else "http"
        self._base = f"{scheme}://{address.authority}"
        self._client = httpx.AsyncClient(
            verify=tls or _default_tls(address),
            proxy=proxy,
            http2=http2,
            trust_env=False,
            follow_redirects=False,
            timeout=httpx.Timeout(None),  # ours are swept
            limits=httpx.Limits(max_connections=limit, keepalive_expiry=4.0),
        )
        self._limit = limit
        self._running: set[HttpxExchange] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    @property
    def open_connections(self) -> int:
        return len(self._running)

    def send(self, request: bytes, sink: Sink, deadlines: Deadlines) -> HttpxExchange:
        exchange = HttpxExchange(sink, deadlines)
        loop = asyncio.get_running_loop()
        if self._closed:
            loop.call_soon(exchange.fail, "closed")
        elif len(self._running) >= self._limit:
            loop.call_soon(exchange.fail, "pool_exhausted")
        else:
            self._running.add(exchange)
            exchange.task = self._keep(loop.create_task(self._run(exchange, request)))
        return exchange

    def sweep(self, now: float) -> None:
        for exchange in tuple(self._running):
            if exchange.sink is not None and exchange.deadline < now:
                kind: FaultKind = "idle_timeout" if exchange.got_body else "first_byte_timeout"
                exchange.fail("total_timeout" if exchange.total_deadline < now else kind)
                exchange.abort()

    def close(self) -> None:
        self._closed = True
        self._close_if_idle()

    def _close_if_idle(self) -> None:
        if self._closed and not self._running:
            self._keep(asyncio.get_running_loop().create_task(self._client.aclose()))

    def _keep(self, task: asyncio.Task[None]) -> asyncio.Task[None]:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _run(self, exchange: HttpxExchange, request: bytes) -> None:
        try:
            await self._exchange(exchange, self._build(exchange, request))
        except httpx.ConnectTimeout:
            exchange.fail("connect_timeout")
        except httpx.ConnectError as error:
            exchange.fail("tls" if "SSL" in str(error) else "connect", type(error).__name__)
        except (httpx.RemoteProtocolError, httpx.DecodingError) as error:
            # httpcore has one error for a bad answer and for none; only a cut says "disconnect" or "incomplete".
            cut = any(word in str(error) for word in ("disconnect", "incomplete", "closed"))
            exchange.fail("connection_lost" if cut else "framing", type(error).__name__)
        except httpx.TransportError as error:
            exchange.fail("connection_lost", type(error).__name__)
        except Exception as error:  # noqa: BLE001 - whatever httpx raises, the sink hears of an end
            exchange.fail("framing", type(error).__name__)
        finally:
            exchange.fail("connection_lost", "cancelled")
            exchange.task = None
            self._running.discard(exchange)
            self._close_if_idle()

    def _build(self, exchange: HttpxExchange, request: bytes) -> httpx.Request:
        """The message our templates rendered, taken apart again: both transports send the same one."""
        head, _, body = request.partition(b"\r\n\r\n")
        first, *lines = head.split(b"\r\n")
        method, target, _ = first.split(b" ")
        headers = [(name, value) for name, _, value in (line.partition(b": ") for line in lines)]
        return self._client.build_request(
            method.decode(),
            self._base + target.decode(),
            headers=headers,
            content=body,
            timeout=httpx.Timeout(None, connect=exchange.deadlines.connect_s),
        )

    async def _exchange(self, exchange: HttpxExchange, request: httpx.Request) -> None:
        response = await self._client.send(request, stream=True)
        try:
            fault = _fault_of_head(response)
            if fault:
                exchange.fail("framing", fault)
                return
            headers = {
                name.lower(): value
                for name, value in response.headers.raw
                if name.lower() in HEADERS_OF_INTEREST
            }
            media = headers.get(b"content-type", b"")[:17].lower()
            if media == b"text/event-stream":
                await _stream(exchange, response, headers)
            else:
                await _collect(exchange, response, headers)
        finally:
            await response.aclose()


def _default_tls(address: Address) -> ssl.SSLContext:
    """Loading the system's certificates takes long: only where they are needed. The other trusts nobody."""
    return ssl.create_default_context() if address.tls else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def _fault_of_head(response: httpx.Response) -> str:
    headers = response.headers
    if response.http_version not in _VERSIONS:
        return "an unknown version"
    lengths = headers.get_list("content-length")
    if len(lengths) > 1 or (lengths and "transfer-encoding" in headers):
        return "two framings"
    framed = bool(lengths) or "transfer-encoding" in headers or response.http_version == "HTTP/2"
    if not framed and response.status_code not in _BODYLESS:
        return "neither length nor chunks: a cut could not be told"
    if headers.get("content-encoding", "identity").lower() != "identity":
        return "a content coding nobody asked for"
    return ""


async def _collect(
    exchange: HttpxExchange, response: httpx.Response, headers: Mapping[bytes, bytes]
) -> None:
    chunks: list[bytes] = []
    size = 0
    async for chunk in response.aiter_raw():
        exchange.got_body = True
        exchange.touch()
        chunks.append(chunk)
        size += len(chunk)
        if size > MAX_ANSWER_BYTES:
            exchange.fail("too_large", "body")
            return
    sink, exchange.sink = exchange.sink, None
    if sink is not None:
        sink.on_unary(response.status_code, headers, b"".join(chunks))


async def _stream(
    exchange: HttpxExchange, response: httpx.Response, headers: Mapping[bytes, bytes]
) -> None:
    sink = exchange.sink
    if sink is None:
        return
    sink.on_stream_start(response.status_code, headers)
    async for chunk in response.aiter_raw():
        exchange.got_body = True
        exchange.touch()
        for begin in range(0, len(chunk), READ_BYTES):
            await exchange.flowing()
            if exchange.sink is None:
                return
            sink.on_stream_data(chunk[begin : begin + READ_BYTES])
    if exchange.sink is sink:
        exchange.sink = None
        sink.on_stream_end()
