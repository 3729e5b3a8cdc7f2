"""The own protocol class: the life of connections and exchanges, one test for each pitfall that was met."""

from __future__ import annotations

import json
import socket
from typing import Any

import pytest

from gateway.protocols.errors import Refused
from gateway.server.exchange import Exchange
from tests.gateway.server.harness import (
    CHAT,
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
