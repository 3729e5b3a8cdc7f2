"""Keep-alive connections to one endpoint, and the set of them a worker holds."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Collection
from time import monotonic
from typing import Final

from gateway.upstream.connection import Connection, Exchange
from gateway.upstream.request_head import Address, parse_base_url
from gateway.upstream.transport import Deadlines, Sink, Transport, UpstreamError

MAX_CONNECTIONS: Final = 1024
IDLE_S: Final = 4.0
"""Below the five seconds after which uvicorn, and so most engines, close an idle connection."""

SWEEP_S: Final = 0.25


class Pool:
    """Connections to one endpoint. The last one used is used first, so that spare ones age out."""

    def __init__(
        self,
        address: Address,
        *,
        limit: int = MAX_CONNECTIONS,
        idle_s: float = IDLE_S,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._address = address
        self._limit = limit
        self._idle_s = idle_s
        self._tls = (tls or ssl.create_default_context()) if address.tls else None
        self._idle: list[Connection] = []
        self._all: set[Connection] = set()
        self._opening: set[asyncio.Task[None]] = set()
        self._closed = False

    def send(self, request: bytes, sink: Sink, deadlines: Deadlines) -> Exchange:
        """Write `request` now if a connection is free, else open one. Faults arrive at the sink, later."""
        exchange = Exchange(request, sink, deadlines)
        idle = self._idle
        while idle:
            connection = idle.pop()
            if connection.usable():
                connection.reused = True
                connection.start(exchange)
                return exchange
        self._open(exchange)
        return exchange

    @property
    def open_connections(self) -> int:
        return len(self._all) + len(self._opening)

    def close(self) -> None:
        self._closed = True
        for connection in tuple(self._idle):
            connection.close()

    def sweep(self, now: float) -> None:
        """Deadlines and age, a few times a second, without a timer per request."""
        for connection in tuple(self._all):
            connection.on_sweep(now)
        # The oldest stand first: the last used is the first to go again.
        while self._idle and self._idle[0].idle_since + self._idle_s < now:
            self._idle[0].close()

    # Owner

    def released(self, connection: Connection) -> None:
        if self._closed:
            connection.close()
            return
        connection.idle_since = monotonic()
        self._idle.append(connection)

    def lost(self, connection: Connection) -> None:
        self._all.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)

    def replay(self, exchange: Exchange) -> None:
        self._open(exchange)

    # inside

    def _open(self, exchange: Exchange) -> None:
        loop = asyncio.get_running_loop()
        if self._closed:
            loop.call_soon(_fail, exchange, UpstreamError("closed"))
        elif self.open_connections >= self._limit:
            loop.call_soon(_fail, exchange, UpstreamError("pool_exhausted"))
        else:
            task = loop.create_task(self._connect(exchange))
            self._opening.add(task)
            task.add_done_callback(self._opening.discard)

    async def _connect(self, exchange: Exchange) -> None:
        loop = asyncio.get_running_loop()
        address = self._address
        connect = loop.create_connection(
            lambda: Connection(self),
            address.host,
            address.port,
            ssl=self._tls,
            server_hostname=address.host if address.tls else None,
        )
        try:
            async with asyncio.timeout(exchange.deadlines.connect_s):
                _, connection = await connect
        except TimeoutError:
            _fail(exchange, UpstreamError("connect_timeout"))
        except ssl.SSLError as error:
            _fail(exchange, UpstreamError("tls", error.reason or type(error).__name__))
        except OSError as error:
            _fail(exchange, UpstreamError("connect", type(error).__name__))
        else:
            self._opened(connection, exchange)

    def _opened(self, connection: Connection, exchange: Exchange) -> None:
        self._all.add(connection)
        if exchange.sink is None:  # the client left while we were connecting
            self.released(connection)
        elif connection.usable():
            connection.start(exchange)
        else:
            self.lost(connection)
            _fail(exchange, UpstreamError("connect", "closed at once"))


def _fail(exchange: Exchange, error: UpstreamError) -> None:
    sink = exchange.take_sink()
    if sink is not None:
        sink.on_error(error)


class Pools:
    """Every transport of one worker, by base URL. Outlives snapshots, so that a publish drops no connection."""

    def __init__(self, make: Callable[[Address], Transport] = Pool) -> None:
        self._make = make
        self._transports: dict[str, Transport] = {}
        self._closing: set[Transport] = set()
        self._timer: asyncio.TimerHandle | None = None

    def get(self, base_url: str) -> Transport:
        """ValueError: the URL cannot be used (`request_head.parse_base_url`)."""
        transport = self._transports.get(base_url)
        if transport is None:
            transport = self._transports[base_url] = self._make(parse_base_url(base_url))
        return transport

    def retain(self, base_urls: Collection[str]) -> None:
        """Close those that no endpoint of the current snapshot has; their running exchanges still end."""
        for base_url in self._transports.keys() - set(base_urls):
            transport = self._transports.pop(base_url)
            transport.close()
            self._closing.add(transport)  # swept until its last exchange is over

    def start(self) -> None:
        """Begin to sweep, on the running loop."""
        self._timer = asyncio.get_running_loop().call_later(SWEEP_S, self._sweep)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.retain(())

    def _sweep(self) -> None:
        now = monotonic()
        for transport in (*self._transports.values(), *self._closing):
            transport.sweep(now)
        self._closing = {t for t in self._closing if t.open_connections}
        self.start()
