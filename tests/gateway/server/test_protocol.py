"""The own protocol class: the life of connections and exchanges, one test for each pitfall that was met."""

from __future__ import annotations

import gc
import json
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from gateway.protocols.errors import Refused
from gateway.server.asgi_cycle import Receive, Send
from gateway.server.exchange import Exchange
from gateway.server.limits import ServerLimits
from tests.gateway.server.harness import (
    CHAT,
    KEY,
    STREAM_HEAD,
    Running,
    ScriptedHandler,
    chat,
    echo,
    receive_all,
    running,
    statuses,
    whole,
)

pytestmark = pytest.mark.enable_socket
QUICK = ServerLimits(
    head_s=0.2, body_s=0.2, idle_s=0.3, stall_s=0.3, linger_s=0.2, sweep_s=0.02, pipelined=4
)


@pytest.fixture(scope="module")
def shared() -> Iterator[Running]:
    with running("own") as state:
        yield state


@pytest.fixture
def server(shared: Running) -> Iterator[Running]:
    handler = shared.handler
    handler.script = echo
    handler.bodies.clear()
    handler.identities.clear()
    handler.events.clear()
    shared.failures.clear()
    yield shared
    assert shared.failures == []


@pytest.fixture(params=["own", "uvicorn"])
def either(request: pytest.FixtureRequest) -> Iterator[Running]:
    with running(request.param) as state:
        yield state


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


# the body, the key, the door


def test_a_connection_is_kept_for_the_next_request(server: Running) -> None:
    with server.connect() as client:
        for number in range(3):
            client.sendall(chat(b"%d" % number))
            assert receive_all(client).endswith(b"\r\n\r\n%d" % number)


def test_a_caller_is_identified_before_any_body_is_sent(server: Running) -> None:
    head = chat(b"x" * 70_000, key=b"other")[:-70_000]
    with server.connect() as client:
        client.sendall(head)
        answer = receive_all(client)
    assert statuses(answer) == [401]
    assert b"connection: close" in answer
    assert server.handler.bodies == []


def test_a_small_refused_body_keeps_the_connection(server: Running) -> None:
    answer = server.ask(chat(b"x" * 1000, key=b"other") + chat(b"next"))
    assert statuses(answer) == [401, 200]
    assert server.handler.bodies == [b"next"]


def test_100_continue_comes_only_after_the_key_is_known(server: Running) -> None:
    with server.connect() as client:
        client.sendall(chat(b"{}", b"expect: 100-continue")[:-2])
        assert receive_all(client) == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.sendall(b"{}")
        assert statuses(receive_all(client)) == [200]
    with server.connect() as client:
        client.sendall(chat(b"{}", b"expect: 100-continue", key=b"other")[:-2])
        assert statuses(receive_all(client)) == [401]


def test_a_pipelined_expectation_waits_for_its_turn(server: Running) -> None:
    waiting: list[Exchange] = []
    server.handler.script = waiting.append
    with server.connect() as client:
        client.sendall(chat(b"1") + chat(b"2", b"expect: 100-continue")[:-1])
        until(lambda: len(waiting) == 1)
        assert receive_all(client, 0.1) == b""
        loop = server.handler
        loop.script = echo
        finish(server, waiting[0])
        assert statuses(receive_all(client)) == [200, 100]
        client.sendall(b"2")
        assert statuses(receive_all(client)) == [200]


def finish(server: Running, exchange: Exchange) -> None:
    """From this thread into the server's."""
    server.call(lambda: exchange.send_all(whole(b"late")))


def test_a_key_in_a_trailer_is_never_seen(either: Running) -> None:
    payload = (
        b"POST %b HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        b"transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nauthorization: Bearer %b\r\n\r\n"
        % (CHAT, KEY)
    )
    assert statuses(either.ask(payload)) == [401]


def test_trailers_of_another_route_do_not_reach_the_application(either: Running) -> None:
    payload = (
        b"POST /v1/models HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n"
        b"2\r\n{}\r\n0\r\nx-late: 1\r\n\r\n"
    )
    assert b"x-late" not in either.ask(payload)


def test_headers_with_underscores_and_forged_ones_do_not_reach_the_application(
    either: Running,
) -> None:
    lines = b"x_forwarded_for: 1\r\nX-Forwarded-For: 2\r\nx-ace-tenant: 3\r\nx-kept: 4\r\n"
    answer = either.ask(b"GET /v1/models HTTP/1.1\r\nhost: localhost\r\n" + lines + b"\r\n")
    assert b"x-kept" in answer
    assert b"forwarded" not in answer
    assert b"x-ace" not in answer


def test_an_empty_header_does_not_lend_its_name_to_the_next(either: Running) -> None:
    lines = b"x-empty:\r\nx-next: value\r\n"
    answer = either.ask(b"GET /v1/models HTTP/1.1\r\nhost: localhost\r\n" + lines + b"\r\n")
    assert b"(b'x-empty', b''), (b'x-next', b'value')" in answer


def test_a_crash_while_identifying_is_one_answer(shared: Running) -> None:
    answer = shared.ask(chat(key=b"crash"))
    assert statuses(answer) == [500]
    assert len(shared.failures) == 1
    shared.failures.clear()


# one answer, whatever happens


@pytest.mark.parametrize("kind", ["own", "uvicorn"])
def test_a_crash_of_the_handler_is_one_answer(kind: str) -> None:
    def crash(exchange: Exchange) -> None:
        raise ZeroDivisionError

    def crash_late(exchange: Exchange) -> None:
        exchange.send_head(STREAM_HEAD)
        raise ZeroDivisionError

    def crash_after(exchange: Exchange) -> None:
        echo(exchange)
        raise ZeroDivisionError

    with running(kind) as state:
        state.handler.script = crash
        assert statuses(state.ask(chat())) == [500]
        state.handler.script = crash_late
        answer = state.ask(chat())
        assert statuses(answer) == [200]
        assert not answer.endswith(b"0\r\n\r\n")
        state.handler.script = crash_after
        assert statuses(state.ask(chat())) == [200]


def test_a_refusal_raised_by_the_handler_is_rendered(either: Running) -> None:
    def refuse(exchange: Exchange) -> None:
        raise Refused("rate_limit_exceeded", retry_after_ms=1500)

    either.handler.script = refuse
    answer = either.ask(chat())
    assert statuses(answer) == [429]
    assert b"retry-after: 2\r\nretry-after-ms: 1500\r\n" in answer
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"] == "rate_limit_exceeded"


def test_calls_after_the_end_are_ignored(either: Running) -> None:
    def twice(exchange: Exchange) -> None:
        echo(exchange)
        echo(exchange)
        exchange.send_chunk(b"x")
        exchange.finish()
        exchange.abort()

    either.handler.script = twice
    answer = either.ask(chat(b"{}"))
    assert statuses(answer) == [200]
    assert answer.endswith(b"\r\n\r\n{}")


# streams


def test_a_stream_arrives_in_pieces_and_ends(either: Running) -> None:
    def stream(exchange: Exchange) -> None:
        exchange.send_head(STREAM_HEAD)
        exchange.send_chunk(b"data: a\n\n")
        exchange.send_chunk(b"data: b\n\n")
        exchange.finish()

    either.handler.script = stream
    answer = either.ask(chat())
    assert b"data: a\n\n" in answer
    assert answer.endswith(b"9\r\ndata: b\n\n\r\n0\r\n\r\n")


def test_a_cut_stream_has_no_last_chunk(either: Running) -> None:
    def cut(exchange: Exchange) -> None:
        exchange.send_head(STREAM_HEAD)
        exchange.send_chunk(b"data: a\n\n")
        exchange.abort()

    either.handler.script = cut
    answer = either.ask(chat())
    assert b"data: a\n\n" in answer
    assert not answer.endswith(b"0\r\n\r\n")


def test_a_stream_to_an_http_1_0_client_is_not_chunked(server: Running) -> None:
    def stream(exchange: Exchange) -> None:
        exchange.send_head(STREAM_HEAD)
        exchange.send_chunk(b"data: a\n\n")
        exchange.finish()

    server.handler.script = stream
    answer = server.ask(chat().replace(b"HTTP/1.1", b"HTTP/1.0"))
    assert b"transfer-encoding" not in answer
    assert answer.endswith(b"\r\n\r\ndata: a\n\n")


@pytest.mark.parametrize("how", ["fin", "rst"])
def test_a_client_that_leaves_is_noticed_within_200_ms(either: Running, how: str) -> None:
    opened: list[Exchange] = []
    open_stream(either.handler, opened)
    client = either.connect()
    client.sendall(chat())
    until(lambda: len(opened) == 1)
    if how == "rst":
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
    client.close()
    until(lambda: either.handler.events[-1:] == ["gone"], 0.2)
    either.call(lambda: opened[0].send_chunk(b"late"))
    assert either.handler.events.count("gone") == 1


def test_a_client_that_leaves_before_its_unary_answer_is_noticed(either: Running) -> None:
    def wait(exchange: Exchange) -> None:
        exchange.listener = Recorder(either.handler.events)

    either.handler.script = wait
    client = either.connect()
    client.sendall(chat())
    until(lambda: len(either.handler.bodies) == 1)
    client.close()
    until(lambda: either.handler.events == ["gone"], 0.3)


def test_a_slow_reader_pauses_its_producer_and_little_is_kept(server: Running) -> None:
    opened: list[Exchange] = []
    open_stream(server.handler, opened)
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.connect(("127.0.0.1", server.port))
    client.sendall(chat())
    until(lambda: len(opened) == 1)
    sent = 0
    while "paused" not in server.handler.events:
        server.call(lambda: opened[0].send_chunk(b"x" * 8192))
        sent += 8192
        assert sent < 50 << 20
    transport: Any = opened[0]._connection.transport  # type: ignore[attr-defined]
    assert transport.get_write_buffer_size() <= 64 << 10
    client.settimeout(0.3)
    with client:
        try:
            while client.recv(1 << 20):
                pass
        except TimeoutError:
            pass
        until(lambda: server.handler.events[-1] == "resumed")


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
            assert count_leftovers() == 0
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
