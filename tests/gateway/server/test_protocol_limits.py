"""The own protocol class where something ends: pipelines, limits, deadlines, a stop, and what is left behind."""

from __future__ import annotations

import gc
import socket
import time
from contextlib import suppress
from typing import Any

import pytest

from gateway.protocols.errors import Refused
from gateway.server.asgi_cycle import Receive, Send
from gateway.server.exchange import Exchange
from gateway.server.limits import ServerLimits
from tests.gateway.server.harness import (
    KEY,
    STREAM_HEAD,
    Recorder,
    Running,
    chat,
    echo,
    finish,
    open_stream,
    receive_all,
    running,
    statuses,
    until,
)

pytestmark = pytest.mark.enable_socket
QUICK = ServerLimits(
    head_s=0.2, body_s=0.2, idle_s=0.3, stall_s=0.3, linger_s=0.2, sweep_s=0.02, pipelined=4
)


# pipelining


def test_pipelined_requests_are_answered_in_order(server: Running) -> None:
    answer = server.ask(b"".join(chat(b"%d" % n) for n in range(10)))
    assert [part[-1:] for part in answer.split(b"HTTP/1.1")[1:]] == [b"%d" % n for n in range(10)]


def test_too_many_pipelined_requests_end_the_connection_after_what_is_due() -> None:
    waiting: list[Exchange] = []
    with running("own", QUICK) as state:
        state.handler.script = waiting.append
        with state.connect() as client:
            client.sendall(chat(b"x") * 9)
            until(lambda: len(waiting) == 1)
            state.handler.script = echo
            finish(state, waiting[0])
            assert statuses(receive_all(client)) == [200] * 5 + [429]


def test_a_broken_request_behind_a_good_one_leaves_the_good_answer(server: Running) -> None:
    waiting: list[Exchange] = []
    server.handler.script = waiting.append
    with server.connect() as client:
        client.sendall(chat() + b"\x00broken\r\n\r\n")
        until(lambda: len(waiting) == 1)
        finish(server, waiting[0])
        assert statuses(receive_all(client)) == [200, 400]


# limits and deadlines


def test_a_body_over_the_limit_is_refused_as_it_comes() -> None:
    with running("own", ServerLimits(body_bytes=1000)) as state:
        body = b"transfer-encoding: chunked\r\n\r\n" + b"1f4\r\n" + b"x" * 500 + b"\r\n"
        head = chat(b"").replace(b"content-length: 0\r\n\r\n", b"")
        answer = state.ask(head + body + (b"1f4\r\n" + b"x" * 500 + b"\r\n") * 2)
        assert statuses(answer) == [413]
        assert b"<reset>" not in answer


def test_a_refused_client_that_still_sends_gets_its_answer(server: Running) -> None:
    """Closing with unread input would reset the connection and lose the 413."""
    with server.connect() as client:
        client.sendall(
            chat(b"", b"x-pad: a").replace(b"content-length: 0", b"content-length: 99999999")
        )
        for _ in range(20):
            client.sendall(b"x" * 10_000)
        answer = receive_all(client)
    assert statuses(answer) == [413]
    assert b"<reset>" not in answer


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        (b"", []),
        (b"POST /v1/chat", [408]),
        (chat(b"x" * 100)[:-50], [408]),
        (chat(), [200]),
    ],
    ids=["nothing", "half a head", "half a body", "an idle connection"],
)
def test_each_silence_has_its_deadline(sent: bytes, expected: list[int]) -> None:
    with running("own", QUICK) as state, state.connect() as client:
        client.sendall(sent)
        began = time.monotonic()
        client.settimeout(3)
        received = b""
        while piece := client.recv(65536):
            received += piece
        assert time.monotonic() - began < 2
        assert statuses(received) == expected


def test_a_slow_head_is_cut_however_often_it_moves() -> None:
    with running("own", QUICK) as state, state.connect() as client:
        began = time.monotonic()
        with suppress(OSError):
            while time.monotonic() - began < 3:
                client.sendall(b"GET / HTTP/1.1\r\nx-a: b"[:1])
                client.setblocking(False)
                with suppress(BlockingIOError):
                    if b"408" in client.recv(1000):
                        break
                client.setblocking(True)
                time.sleep(0.01)
        assert time.monotonic() - began < 2


def test_a_slow_but_honest_upload_is_not_cut() -> None:
    with running("own", QUICK) as state, state.connect() as client:
        body = b"x" * 8000
        client.sendall(chat(body)[: -len(body)])
        for begin in range(0, len(body), 400):
            client.sendall(body[begin : begin + 400])
            time.sleep(0.03)
        assert statuses(receive_all(client)) == [200]


def test_a_client_that_reads_nothing_is_cut() -> None:
    opened: list[Exchange] = []
    with running("own", QUICK) as state:
        open_stream(state.handler, opened)
        with state.connect() as client:
            client.sendall(chat())
            until(lambda: len(opened) == 1)
            while "paused" not in state.handler.events:
                state.call(lambda: opened[0].send_chunk(b"x" * 100_000))
            until(lambda: "gone" in state.handler.events, 3)


def test_connections_over_the_limit_are_told_to_come_back() -> None:
    with running("own", ServerLimits(connections=1)) as state, state.connect() as first:
        first.sendall(chat())
        assert statuses(receive_all(first)) == [200]
        answer = state.ask(b"")
        assert statuses(answer) == [503]
        assert b"retry-after: 1\r\n" in answer


# shutting down


def test_a_graceful_stop_lets_the_stream_end_and_closes_the_idle() -> None:
    opened: list[Exchange] = []
    with running("own") as state:
        idle = state.connect()
        idle.sendall(chat())
        receive_all(idle)
        open_stream(state.handler, opened)
        client = state.connect()
        client.sendall(chat())
        until(lambda: len(opened) == 1)
        state.server.should_exit = True
        assert receive_all(idle) == b""
        state.call(opened[0].finish)
        answer = receive_all(client)
        assert answer.endswith(b"0\r\n\r\n")
        client.settimeout(2)
        assert client.recv(10) == b""
        idle.close()
        client.close()


# memory


class Relay(Recorder):
    """Points at its exchange, as a relay does."""

    def __init__(self, exchange: Exchange) -> None:
        super().__init__([])
        self.exchange = exchange


def relayed(exchange: Exchange) -> None:
    """Streams for `s`, refuses for `r`, never answers `w`, else echoes."""
    exchange.listener = Relay(exchange)
    if exchange.body == b"s":
        exchange.send_head(STREAM_HEAD)
        exchange.send_chunk(b"data: a\n\n")
        exchange.finish()
    elif exchange.body == b"r":
        raise Refused("overloaded")
    elif exchange.body != b"w":
        echo(exchange)


def count_leftovers() -> int:
    return sum(type(o).__name__ in ("HttpExchange", "Relay") for o in gc.get_objects())


def test_no_request_leaves_work_for_the_collector() -> None:
    """Unary, streamed, refused and abandoned requests: a cycle a request was worth 20 to 57 ms of p99."""
    with running("own") as state:
        state.handler.script = relayed
        gc.collect()
        before = count_leftovers()  # of other tests in this process
        gc.disable()
        try:
            with state.connect() as client:
                for body in (b"u", b"s", b"r", b"x") * 250:
                    client.sendall(chat(body, key=KEY if body != b"x" else b"other"))
                    receive_until_answered(client)
            for _ in range(20):
                with state.connect() as client:
                    client.sendall(chat(b"w"))
                    until(lambda: state.handler.bodies[-1] == b"w")
            until(lambda: not state.server.server_state.connections)
            # The server's thread may still be in the call that ended the last connection; the collector is off.
            until(lambda: count_leftovers() == before)
        finally:
            gc.enable()


def receive_until_answered(client: socket.socket) -> None:
    received = b""
    while True:
        received += client.recv(65536)
        head, separator, body = received.partition(b"\r\n\r\n")
        if b"chunked" in head and body.endswith(b"0\r\n\r\n"):
            return
        length = [line for line in head.split(b"\r\n") if line.startswith(b"content-length: ")]
        if separator and length and len(body) == int(length[0][16:]):
            return


# ASGI routes of the own class


async def answering_app(scope: Any, receive: Receive, send: Send) -> None:
    body = (await receive())["body"] or b"none"
    start = {"type": "http.response.start", "status": 201, "headers": []}
    if scope["path"] == "/pieces":
        await send(start)
        for piece in (b"a", b"b"):
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body"})
    elif scope["path"] == "/split":
        await send({**start, "headers": [(b"x-a", b"b\r\nset-cookie: c")]})
    elif scope["path"] == "/crash":
        raise ZeroDivisionError
    elif scope["path"] != "/silent":
        await send(start)
        await send({"type": "http.response.body", "body": body})


def request(method: bytes, path: bytes, body: bytes = b"") -> bytes:
    return b"%b %b HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n%b" % (
        method, path, len(body), body,
    )  # fmt: skip


def test_asgi_answers_are_framed() -> None:
    with running("own", app=answering_app) as state:
        assert state.ask(request(b"PUT", b"/", b"hello")).endswith(
            b"content-length: 5\r\n\r\nhello"
        )
        assert state.ask(request(b"HEAD", b"/")).endswith(b"content-length: 4\r\n\r\n")
        assert state.ask(request(b"GET", b"/pieces")).endswith(b"1\r\na\r\n1\r\nb\r\n0\r\n\r\n")


@pytest.mark.parametrize("path", [b"/split", b"/crash", b"/silent"])
def test_a_failure_of_the_application_is_one_answer(path: bytes) -> None:
    with running("own", app=answering_app) as state:
        answer = state.ask(request(b"GET", path))
        assert statuses(answer) == [500]
        assert b"set-cookie" not in answer
