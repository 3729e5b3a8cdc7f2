"""What every upstream transport promises, against a scripted engine: the rows of the fault matrix that are ours."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from time import monotonic
from typing import Any

import pytest

from gateway.upstream.httpx_transport import HTTPXTransport
from gateway.upstream.pool import Pool
from gateway.upstream.request_head import Address
from gateway.upstream.transport import MAX_HEAD_BYTES, READ_BYTES, Deadlines, Transport
from tests.contract.sinks import RecordingSink
from tests.contract.upstream import (
    LAST_CHUNK,
    STREAM_HEAD,
    Script,
    ScriptedUpstream,
    answer,
    chunk,
    says,
    says_then_closes,
    says_then_hangs,
    says_then_resets,
)

pytestmark = pytest.mark.enable_socket
REQUEST = b"POST /v1/chat/completions HTTP/1.1\r\nhost: engine\r\ncontent-length: 2\r\n\r\n{}"
SLOW = Deadlines()
QUICK = Deadlines(connect_s=0.3, first_byte_s=0.2, idle_s=0.2, total_s=5.0)
EVENTS = [b'data: {"n":%d}\n\n' % n for n in range(3)]
Make = Callable[..., Transport]


@pytest.fixture(params=[Pool, HTTPXTransport], ids=["own", "httpx"])
async def make(request: pytest.FixtureRequest) -> AsyncIterator[Make]:
    """Makes transports whose deadlines are swept every 20 ms."""
    made: list[Transport] = []

    def build(port: int, **options: Any) -> Transport:
        address = Address(False, "127.0.0.1", port, "", f"127.0.0.1:{port}")
        made.append(request.param(address, **options))
        return made[-1]

    async def sweep() -> None:
        while True:
            await asyncio.sleep(0.02)
            for transport in made:
                transport.sweep(monotonic())

    sweeper = asyncio.ensure_future(sweep())
    yield build
    sweeper.cancel()
    for transport in made:
        transport.close()
    await asyncio.sleep(0.02)


async def ask(transport: Transport, deadlines: Deadlines = SLOW) -> RecordingSink:
    sink = RecordingSink()
    transport.send(REQUEST, sink, deadlines)
    await asyncio.wait_for(sink.over.wait(), 10)
    return sink


async def faces(make: Make, script: Script, deadlines: Deadlines = SLOW) -> RecordingSink:
    async with ScriptedUpstream(script) as upstream:
        return await ask(make(upstream.port), deadlines)


async def test_it_hands_over_a_whole_answer_with_the_headers_of_interest(make: Make) -> None:
    text = answer(b'{"a":1}', b"429 Too Many Requests", b"Retry-After: 7", b"x-secret: no")
    sink = await faces(make, says(text))
    assert (sink.status, sink.body, sink.calls) == (429, b'{"a":1}', ["unary"])
    assert sink.headers == {b"content-type": b"application/json", b"retry-after": b"7"}


async def test_it_sends_the_request_unchanged_in_its_fields(make: Make) -> None:
    async with ScriptedUpstream(says(answer(b"{}"))) as upstream:
        await ask(make(upstream.port))
        head, _, body = upstream.requests[0].partition(b"\r\n\r\n")
        assert head.startswith(b"POST /v1/chat/completions HTTP/1.1\r\n")
        assert b"host: engine" in head.lower().split(b"\r\n")
        assert body == b"{}"


async def test_it_reuses_a_connection(make: Make) -> None:
    async with ScriptedUpstream(says(answer(b"{}"))) as upstream:
        transport = make(upstream.port)
        for _ in range(5):
            assert (await ask(transport)).status == 200
            await asyncio.sleep(0.01)
        assert upstream.connections == 1


async def test_it_does_not_reuse_a_connection_the_engine_closes(make: Make) -> None:
    text = answer(b"{}", b"200 OK", b"connection: close")
    async with ScriptedUpstream(says_then_closes(text)) as upstream:
        transport = make(upstream.port)
        for _ in range(2):
            assert (await ask(transport)).status == 200
            await asyncio.sleep(0.02)
        assert upstream.connections == 2


async def test_it_streams_in_order_and_ends(make: Make) -> None:
    sink = await faces(make, says(STREAM_HEAD, *map(chunk, EVENTS), LAST_CHUNK))
    assert (sink.body, sink.calls) == (b"".join(EVENTS), ["start", "end"])


async def test_it_passes_an_event_on_before_the_next_one_comes(make: Make) -> None:
    async with ScriptedUpstream(says_then_hangs(STREAM_HEAD, chunk(EVENTS[0]))) as upstream:
        sink = RecordingSink()
        transfer = make(upstream.port).send(REQUEST, sink, SLOW)
        await asyncio.wait_for(sink.first.wait(), 2)
        assert sink.body == EVENTS[0]
        transfer.abort()


async def test_an_answer_split_at_every_byte_is_the_same(make: Make) -> None:
    async def drip(call: Any) -> None:
        text = STREAM_HEAD + b"".join(map(chunk, EVENTS)) + LAST_CHUNK
        for index in range(len(text)):
            await call.say(text[index : index + 1])
            await asyncio.sleep(0)

    sink = await faces(make, drip)
    assert sink.body == b"".join(EVENTS)


async def test_interim_answers_are_not_the_answer(make: Make) -> None:
    interim = b"HTTP/1.1 103 Early Hints\r\nlink: a\r\n\r\n"
    sink = await faces(make, says(b"HTTP/1.1 100 Continue\r\n\r\n", interim, answer(b"{}")))
    assert (sink.status, sink.body) == (200, b"{}")


async def test_trailers_are_ignored(make: Make) -> None:
    sink = await faces(
        make, says(STREAM_HEAD, chunk(b"data: a\n\n"), b"0\r\nretry-after: 9\r\n\r\n")
    )
    assert sink.calls == ["start", "end"]
    assert b"retry-after" not in sink.headers


async def test_a_redirect_is_an_answer_and_never_followed(make: Make) -> None:
    sink = await faces(make, says(answer(b"", b"302 Found", b"location: http://127.0.0.1:1/")))
    assert sink.status == 302


async def test_an_answer_without_a_body_is_whole(make: Make) -> None:
    assert (await faces(make, says(b"HTTP/1.1 204 No Content\r\n\r\n"))).status == 204


BROKEN = {
    "two lengths": b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{}",
    "length and chunks": b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n{}",
    "a bad chunk": STREAM_HEAD + b"zz\r\n{}\r\n",
    "no framing": b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n{}",
    "not HTTP": b"\x00\x01garbage\r\n\r\n",
    "a wrong version": b"HTTP/7.3 200 OK\r\ncontent-length: 0\r\n\r\n",
    "gzip": b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 2\r\n\r\n{}",
    "a switch of protocols": b"HTTP/1.1 101 Switching\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
}


@pytest.mark.parametrize("name", BROKEN)
async def test_a_broken_answer_is_a_bad_response_and_its_connection_is_not_reused(
    make: Make, name: str
) -> None:
    async with ScriptedUpstream(says_then_closes(BROKEN[name]), says(answer(b"{}"))) as upstream:
        transport = make(upstream.port)
        sink = await ask(transport)
        assert sink.error is not None
        assert sink.error.code == "upstream_bad_response"
        assert not sink.error.replayable
        assert (await ask(transport)).status == 200
        assert upstream.connections == 2


async def test_headers_without_end_are_cut(make: Make) -> None:
    async def flood(call: Any) -> None:
        await call.say(b"HTTP/1.1 200 OK\r\nx: ")
        for _ in range(4 * MAX_HEAD_BYTES // 4096):
            await call.say(b"a" * 4096)

    sink = await faces(make, flood, QUICK)
    assert sink.error is not None


@pytest.mark.parametrize("end", [says_then_closes, says_then_resets], ids=["close", "reset"])
@pytest.mark.parametrize(
    "text",
    [b"", b"HTTP/1.1 200 OK\r\n", answer(b"{}")[:-1], STREAM_HEAD, STREAM_HEAD + chunk(EVENTS[0])],
    ids=["nothing", "half a head", "half a body", "a stream's head", "half a stream"],
)
async def test_an_answer_cut_short_is_an_error_and_never_an_end(
    make: Make, end: Callable[[bytes], Script], text: bytes
) -> None:
    sink = await faces(make, end(text))
    assert sink.error is not None
    assert sink.error.code == "upstream_bad_response"
    assert "end" not in sink.calls
    assert "unary" not in sink.calls


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (b"", "first_byte_timeout"),
        (STREAM_HEAD, "first_byte_timeout"),
        (STREAM_HEAD + chunk(EVENTS[0]), "idle_timeout"),
        (answer(b"{}")[:-1], "idle_timeout"),
    ],
    ids=["before the head", "before the first event", "within a stream", "within a body"],
)
async def test_silence_ends_in_the_deadline_that_names_it(
    make: Make, text: bytes, kind: str
) -> None:
    async with ScriptedUpstream(says_then_hangs(text)) as upstream:
        sink = await ask(make(upstream.port), QUICK)
        assert sink.error is not None
        assert (sink.error.kind, sink.error.code) == (kind, "upstream_timeout")
        await asyncio.wait_for(upstream.closed.wait(), 1)


async def test_a_stream_that_never_ends_meets_the_total_deadline(make: Make) -> None:
    async def forever(call: Any) -> None:
        await call.say(STREAM_HEAD)
        while True:
            await call.say(chunk(EVENTS[0]))
            await asyncio.sleep(0.01)

    sink = await faces(make, forever, Deadlines(total_s=0.3))
    assert sink.error is not None
    assert sink.error.kind == "total_timeout"


async def test_a_refused_connection_may_be_tried_elsewhere(make: Make) -> None:
    async with ScriptedUpstream(says(b"")) as upstream:
        port = upstream.port
    sink = await ask(make(port))
    assert sink.error is not None
    assert (sink.error.code, sink.error.replayable) == ("upstream_unavailable", True)


async def test_an_abort_closes_the_connection_at_once_and_silences_the_sink(make: Make) -> None:
    async with ScriptedUpstream(says_then_hangs(STREAM_HEAD, chunk(EVENTS[0]))) as upstream:
        sink = RecordingSink()
        transfer = make(upstream.port).send(REQUEST, sink, SLOW)
        await asyncio.wait_for(sink.first.wait(), 2)
        began = monotonic()
        transfer.abort()
        await asyncio.wait_for(upstream.closed.wait(), 1)
        assert monotonic() - began < 0.2
        assert sink.calls == ["start"]
        transfer.abort()
        transfer.pause()
        transfer.resume()


async def test_an_abort_after_the_end_leaves_the_next_exchange_alone(make: Make) -> None:
    async with ScriptedUpstream(
        says(answer(b"{}")), says_then_hangs(STREAM_HEAD + chunk(b"a"))
    ) as up:
        transport = make(up.port)
        first, second = RecordingSink(), RecordingSink()
        transfer = transport.send(REQUEST, first, SLOW)
        await asyncio.wait_for(first.over.wait(), 2)
        await asyncio.sleep(0.02)
        running = transport.send(REQUEST, second, SLOW)
        await asyncio.wait_for(second.first.wait(), 2)
        transfer.abort()
        await asyncio.sleep(0.05)
        assert not second.over.is_set()
        running.abort()


async def test_a_paused_stream_holds_little_and_loses_nothing(make: Make) -> None:
    data = b"x" * 50_000
    rounds = 40

    async def pour(call: Any) -> None:
        await call.say(STREAM_HEAD, *[chunk(data)] * rounds, LAST_CHUNK)

    async with ScriptedUpstream(pour) as upstream:
        sink = RecordingSink()
        transfer = make(upstream.port).send(REQUEST, sink, Deadlines(idle_s=0.1))
        await asyncio.wait_for(sink.first.wait(), 2)
        transfer.pause()
        before = len(sink.body)
        await asyncio.sleep(
            0.3
        )  # three times the idle deadline: the pause is not the engine's fault
        assert len(sink.body) - before <= READ_BYTES
        transfer.resume()
        await asyncio.wait_for(sink.over.wait(), 5)
        assert sink.error is None
        assert len(sink.body) == len(data) * rounds
        assert max(sink.sizes) <= READ_BYTES


async def test_a_full_pool_says_so(make: Make) -> None:
    async with ScriptedUpstream(says_then_hangs(b"")) as upstream:
        transport = make(upstream.port, limit=1)
        running = transport.send(REQUEST, RecordingSink(), SLOW)
        sink = await ask(transport)
        assert sink.error is not None
        assert (sink.error.kind, sink.error.replayable) == ("pool_exhausted", True)
        running.abort()


async def test_a_closed_transport_takes_no_work_but_ends_what_runs(make: Make) -> None:
    async def late(call: Any) -> None:
        await asyncio.sleep(0.1)
        await call.say(answer(b"{}"))

    async with ScriptedUpstream(late) as upstream:
        transport = make(upstream.port)
        running = RecordingSink()
        transport.send(REQUEST, running, SLOW)
        await asyncio.sleep(0.03)
        transport.close()
        refused = await ask(transport)
        assert refused.error is not None
        assert refused.error.kind == "closed"
        await asyncio.wait_for(running.over.wait(), 2)
        assert running.status == 200
