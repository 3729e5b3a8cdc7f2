"""A real uvicorn server in a thread, with either protocol class, and a raw client to torment it."""

from __future__ import annotations

import asyncio
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from gateway.protocols.errors import Refused, render_openai
from gateway.server.asgi_cycle import Receive, Send
from gateway.server.asgi_door import AsgiDoor
from gateway.server.exchange import Exchange
from gateway.server.headers import credential
from gateway.server.limits import ServerLimits
from gateway.server.protocol import protocol_factory
from gateway.server.uvicorn_http import GuardedHttp

KEY = b"ace_live_good"
CHAT = b"/v1/chat/completions"


class ScriptedHandler:
    """A DirectHandler that answers as the test says; by default with the body it was given."""

    routes = frozenset((CHAT,))

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.identities: list[bytes] = []
        self.events: list[str] = []
        self.script: Callable[[Exchange], None] = echo

    def identify(self, exchange: Exchange, /) -> bytes:
        key = credential(exchange)
        self.identities.append(key)
        if key == b"crash":
            raise ZeroDivisionError
        if key != KEY:
            raise Refused("invalid_api_key")
        return key

    def handle(self, exchange: Exchange, /) -> None:
        self.bodies.append(exchange.body)
        self.script(exchange)

    def render_refusal(self, refused: Refused, exchange: Exchange | None, /) -> bytes:
        return render_openai(refused, "req_test", 7)


def whole(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (
        len(body),
        body,
    )


STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
)


def echo(exchange: Exchange) -> None:
    exchange.send_all(whole(exchange.body))


async def plain_app(scope: Any, receive: Receive, send: Send) -> None:
    """Every other route: tells what it saw."""
    assert scope["type"] == "http"
    seen = repr((scope["method"], scope["path"], scope["query_string"], scope["headers"])).encode()
    await send(
        {
            "type": "http.response.start",
            "status": 200,
            "headers": [(b"content-length", b"%d" % len(seen))],
        }
    )
    await send({"type": "http.response.body", "body": seen})


class Running:
    kind = "own"

    def __init__(self, port: int, handler: ScriptedHandler, server: uvicorn.Server) -> None:
        self.port = port
        self.handler = handler
        self.server = server
        self.failures: list[dict[str, Any]] = []
        self.loop: asyncio.AbstractEventLoop | None = None

    def call(self, function: Callable[[], None]) -> None:
        """Run `function` on the server's loop and wait for it."""
        assert self.loop is not None
        done = threading.Event()

        def run() -> None:
            function()
            done.set()

        self.loop.call_soon_threadsafe(run)
        assert done.wait(5)

    def connect(self) -> socket.socket:
        client = socket.create_connection(("127.0.0.1", self.port), timeout=5)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return client

    def ask(self, payload: bytes, *, patience_s: float = 1.0) -> bytes:
        """Everything the server says to `payload` until it closes, or is silent after an answer."""
        with self.connect() as client:
            client.sendall(payload)
            return receive_all(client, patience_s)


def receive_all(client: socket.socket, patience_s: float = 1.0) -> bytes:
    received = b""
    client.settimeout(patience_s)
    try:
        while piece := client.recv(65536):
            received += piece
            client.settimeout(0.05)
    except TimeoutError:
        pass
    except ConnectionResetError:
        received += b"<reset>"
    return received


@contextmanager
def running(
    kind: str, limits: ServerLimits | None = None, app: Any = plain_app
) -> Iterator[Running]:
    limits = limits or ServerLimits()
    handler = ScriptedHandler()
    own = kind == "own"
    config = uvicorn.Config(
        app if own else AsgiDoor(app, handler, limits),
        loop="uvloop",
        http=protocol_factory(handler, limits) if own else GuardedHttp,
        ws="none",
        lifespan="off",
        access_log=False,
        log_level="critical",
        proxy_headers=False,
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=3,
    )
    server = uvicorn.Server(config)
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    state = Running(listener.getsockname()[1], handler, server)
    thread = threading.Thread(target=_serve, args=(server, listener, state), daemon=True)
    thread.start()
    waited = time.monotonic()
    while not server.started and time.monotonic() - waited < 10:
        time.sleep(0.005)
    try:
        yield state
    finally:
        server.should_exit = True
        thread.join(10)
        listener.close()


def _serve(server: uvicorn.Server, listener: socket.socket, state: Running) -> None:
    async def main() -> None:
        state.loop = loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: state.failures.append(context))
        await server.serve(sockets=[listener])

    with asyncio.Runner(loop_factory=server.config.get_loop_factory()) as runner:
        runner.run(main())


def chat(
    body: bytes = b"{}", *headers: bytes, key: bytes | None = KEY, host: bytes = b"localhost"
) -> bytes:
    """A well-formed request, with more header lines if wanted."""
    lines = [b"POST %b HTTP/1.1" % CHAT, b"host: " + host, b"content-type: application/json"]
    if key is not None:
        lines.append(b"authorization: Bearer " + key)
    lines += [*headers, b"content-length: %d" % len(body)]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def statuses(answer: bytes) -> list[int]:
    """Status of every response in what came back."""
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3}) ", answer)]


def until(true: Callable[[], bool], seconds: float = 2.0) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "did not come true in time"
        time.sleep(0.002)


class Recorder:
    """A listener that writes down what it hears."""

    def __init__(self, events: list[str]) -> None:
        self.events = events

    def client_gone(self) -> None:
        self.events.append("gone")

    def client_paused(self) -> None:
        self.events.append("paused")

    def client_resumed(self) -> None:
        self.events.append("resumed")


def open_stream(handler: ScriptedHandler, opened: list[Exchange]) -> None:
    """Answer the next requests with a stream head and one event, and keep them open."""

    def script(exchange: Exchange) -> None:
        exchange.listener = Recorder(handler.events)
        exchange.send_head(STREAM_HEAD)
        exchange.send_chunk(b"data: a\n\n")
        opened.append(exchange)

    handler.script = script


def finish(server: Running, exchange: Exchange) -> None:
    """From this thread into the server's."""
    server.call(lambda: exchange.send_all(whole(b"late")))
