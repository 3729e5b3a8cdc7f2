"""What only the own client can promise: races, unsolicited bytes, replays, TLS, and its place in memory."""

from __future__ import annotations

import asyncio
import gc
import ssl
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gateway.upstream import connection
from gateway.upstream.connection import Connection
from gateway.upstream.pool import Pool, Pools
from gateway.upstream.request_head import Address
from gateway.upstream.transport import Deadlines, UpstreamError
from tests.contract.sinks import RecordingSink
from tests.contract.test_transport_contract import REQUEST, SLOW, ask
from tests.contract.upstream import (
    LAST_CHUNK,
    STREAM_HEAD,
    Call,
    ScriptedUpstream,
    answer,
    chunk,
    says,
    says_then_closes,
    says_then_hangs,
)

pytestmark = pytest.mark.enable_socket


def pool_of(port: int, **options: Any) -> Pool:
    return Pool(Address(False, "127.0.0.1", port, "", f"127.0.0.1:{port}"), **options)


async def test_unsolicited_bytes_close_an_idle_connection() -> None:
    async def talkative(call: Call) -> None:
        await call.say(answer(b"{}"))
        await asyncio.sleep(0.05)
        await call.say(answer(b'{"stolen": 1}'))

    async with ScriptedUpstream(talkative, says(answer(b"{}"))) as upstream:
        pool = pool_of(upstream.port)
        await ask(pool)
        await asyncio.sleep(0.1)
        assert pool.open_connections == 0
        assert (await ask(pool)).body == b"{}"


async def test_a_second_answer_in_the_same_read_is_never_delivered() -> None:
    async with ScriptedUpstream(says(answer(b"{}") + answer(b'{"stolen": 1}'))) as upstream:
        pool = pool_of(upstream.port)
        assert (await ask(pool)).body == b"{}"
        assert (await ask(pool)).body == b"{}"
        assert upstream.connections == 2


async def test_a_connection_closed_under_us_is_replayed_once_on_a_fresh_one() -> None:
    async def race(call: Call) -> None:
        call.writer.close()

    async with ScriptedUpstream(says(answer(b"{}")), race, says(answer(b'{"a":1}'))) as upstream:
        pool = pool_of(upstream.port)
        await ask(pool)
        assert (await ask(pool)).body == b'{"a":1}'
        assert upstream.connections == 2
        assert len(upstream.requests) == 3


async def test_a_replay_is_not_replayed() -> None:
    async with ScriptedUpstream(says(answer(b"{}")), says_then_closes()) as upstream:
        pool = pool_of(upstream.port)
        await ask(pool)
        sink = await ask(pool)
        assert sink.error is not None
        assert sink.error.kind == "connection_lost"
        assert len(upstream.requests) == 3


async def test_nothing_is_replayed_once_a_byte_came_or_on_a_fresh_connection() -> None:
    async with ScriptedUpstream(says(answer(b"{}")), says_then_closes(b"HTTP/1.1 2")) as upstream:
        pool = pool_of(upstream.port)
        await ask(pool)
        assert (await ask(pool)).error is not None
        assert len(upstream.requests) == 2
    async with ScriptedUpstream(says_then_closes()) as upstream:
        assert (await ask(pool_of(upstream.port))).error is not None
        assert len(upstream.requests) == 1


@pytest.mark.interpreted
async def test_an_engine_that_died_at_work_is_not_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Losing a reused connection later than the race window means it worked on the request."""
    monkeypatch.setattr("gateway.upstream.connection._REPLAY_WINDOW_S", 0.01)

    async def die(call: Call) -> None:
        await asyncio.sleep(0.1)
        call.writer.close()

    async with ScriptedUpstream(says(answer(b"{}")), die) as upstream:
        pool = pool_of(upstream.port)
        await ask(pool)
        assert (await ask(pool)).error is not None
        assert len(upstream.requests) == 2


async def test_idle_connections_age_out_and_the_last_used_is_used_first() -> None:
    async with ScriptedUpstream(says(answer(b"{}"))) as upstream:
        pool = pool_of(upstream.port, idle_s=0.05)
        await asyncio.gather(*[ask(pool) for _ in range(4)])
        assert pool.open_connections == 4
        await asyncio.sleep(0.1)
        await ask(pool)
        pool.sweep(asyncio.get_running_loop().time())
        assert pool.open_connections == 1


async def test_an_abort_while_connecting_is_silent() -> None:
    async with ScriptedUpstream(says(answer(b"{}"))) as upstream:
        pool = pool_of(upstream.port)
        sink = RecordingSink()
        pool.send(REQUEST, sink, SLOW).abort()
        await asyncio.sleep(0.1)
        assert sink.calls == []
        assert upstream.requests == []


async def test_a_pause_before_the_connection_stands_holds() -> None:
    async with ScriptedUpstream(says(STREAM_HEAD, chunk(b"data: a\n\n"), LAST_CHUNK)) as upstream:
        sink = RecordingSink()
        transfer = pool_of(upstream.port).send(REQUEST, sink, SLOW)
        transfer.pause()
        await asyncio.sleep(0.1)
        assert sink.calls == []
        transfer.resume()
        await asyncio.wait_for(sink.over.wait(), 2)
        assert sink.body == b"data: a\n\n"


async def test_a_sink_may_send_from_inside_its_last_callback() -> None:
    async with ScriptedUpstream(says(answer(b"{}"))) as upstream:
        pool = pool_of(upstream.port)
        second = RecordingSink()

        class Chain(RecordingSink):
            def on_unary(self, status: int, headers: Mapping[bytes, bytes], body: bytes, /) -> None:
                pool.send(REQUEST, second, SLOW)

        pool.send(REQUEST, Chain(), SLOW)
        await asyncio.wait_for(second.over.wait(), 2)
        assert upstream.connections == 1


async def test_a_flood_of_interim_answers_is_cut() -> None:
    async with ScriptedUpstream(says(b"HTTP/1.1 100 Continue\r\n\r\n" * 50)) as upstream:
        sink = await ask(pool_of(upstream.port))
        assert sink.error is not None
        assert sink.error.kind == "framing"


@pytest.mark.interpreted
async def test_an_answer_larger_than_the_limit_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.upstream.connection.MAX_ANSWER_BYTES", 1000)
    async with ScriptedUpstream(says(answer(b"x" * 1001))) as upstream:
        sink = await ask(pool_of(upstream.port))
        assert sink.error is not None
        assert sink.error.kind == "too_large"


async def test_no_exchange_leaves_work_for_the_collector() -> None:
    """Any cycle would cost p99, not only memory."""
    async with ScriptedUpstream(
        says(STREAM_HEAD + chunk(b"data: a\n\n") + LAST_CHUNK), says(answer(b"{}"))
    ) as upstream:
        pool = pool_of(upstream.port)
        await ask(pool)
        await ask(pool)
        await asyncio.sleep(0)

        over = asyncio.Semaphore(0)

        class Relay:
            """Points at its transfer, as a relay does."""

            transfer: object = None

            def on_unary(self, status: int, headers: Mapping[bytes, bytes], body: bytes, /) -> None:
                over.release()

            def on_stream_start(self, status: int, headers: Mapping[bytes, bytes], /) -> None: ...

            def on_stream_data(self, data: bytes, /) -> None: ...

            def on_stream_end(self) -> None: ...

            def on_error(self, error: UpstreamError, /) -> None:
                raise AssertionError(error)

        gc.collect()
        gc.disable()
        try:
            for _ in range(300):
                relay = Relay()
                relay.transfer = pool.send(REQUEST, relay, SLOW)
                await over.acquire()
            # `type`, not `isinstance`: lazy proxies of other libraries would be woken by the question.
            ours = [o for o in gc.get_objects() if type(o) in (Relay, connection.Exchange)]
            assert len(ours) <= 2  # the last ones, still named here
        finally:
            gc.enable()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A self-signed certificate for `engine.test`."""
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
         "-nodes", "-days", "2", "-subj", "/CN=engine.test", "-addext",
         "subjectAltName=DNS:localhost", "-keyout", folder / "key.pem", "-out", folder / "cert.pem"],
        check=True, capture_output=True,
    )  # fmt: skip
    return folder


def contexts(folder: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    return server, ssl.create_default_context(cafile=str(folder / "cert.pem"))


async def test_tls_is_verified_against_the_host_name(certificate: Path) -> None:
    server, trusting = contexts(certificate)
    async with ScriptedUpstream(says(answer(b"{}")), tls=server) as upstream:
        right = Address(True, "localhost", upstream.port, "", "localhost")
        assert (await ask(Pool(right, tls=trusting))).status == 200
        wrong = Address(True, "127.0.0.1", upstream.port, "", "127.0.0.1")
        for pool in (Pool(wrong, tls=trusting), Pool(right)):
            sink = await ask(pool)
            assert sink.error is not None
            assert (sink.error.kind, sink.error.code) == ("tls", "upstream_bad_response")


async def test_pools_outlive_a_publish_and_go_when_no_endpoint_has_them() -> None:
    async with ScriptedUpstream(says_then_hangs(STREAM_HEAD)) as upstream:
        pools = Pools()
        pools.start()
        url = f"http://127.0.0.1:{upstream.port}"
        pool = pools.get(url)
        pools.retain((url,))
        assert pools.get(url) is pool
        sink = RecordingSink()
        pool.send(REQUEST, sink, Deadlines(first_byte_s=0.1))
        pools.retain(())
        assert pools.get(url) is not pool
        await asyncio.wait_for(sink.over.wait(), 2)  # swept although retired
        assert sink.error is not None
        pools.stop()


def test_the_read_buffer_is_shared_because_reads_are_consumed_at_once() -> None:
    class Nobody:
        def released(self, connection: Connection, /) -> None: ...
        def lost(self, connection: Connection, /) -> None: ...
        def replay(self, exchange: object, /) -> None: ...

    first, second = Connection(Nobody()), Connection(Nobody())
    assert first.get_buffer(-1) is second.get_buffer(-1)
