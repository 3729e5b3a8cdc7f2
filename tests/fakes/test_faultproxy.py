"""The fault proxy, before a fake engine: each toxic does what its name says and leaves alone what it should."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx
import msgspec
import pytest

from tests.fakes.engine import FakeEngine
from tests.fakes.faultproxy import FaultProxy
from tests.fakes.test_engine import ASK, events_of, settled

pytestmark = pytest.mark.enable_socket


@pytest.fixture
async def engine() -> AsyncIterator[FakeEngine]:
    async with FakeEngine() as engine:
        yield engine


@pytest.fixture
async def proxy(engine: FakeEngine) -> AsyncIterator[FaultProxy]:
    async with FaultProxy("127.0.0.1", engine.port) as proxy:
        yield proxy


async def ask(proxy: FaultProxy, *, stream: bool = False, timeout_s: float = 5.0) -> httpx.Response:
    async with httpx.AsyncClient(trust_env=False, timeout=timeout_s) as http:
        head = {"x-request-id": "p"}
        body = ASK | {"stream": stream}
        return await http.post(f"{proxy.url}/v1/chat/completions", json=body, headers=head)


async def raw_stream(proxy: FaultProxy) -> bytes:
    """Everything that came before the connection ended, however it ended."""
    got = b""
    with pytest.raises((httpx.ReadError, httpx.RemoteProtocolError)):  # noqa: PT012 - read until it breaks
        async with httpx.AsyncClient(trust_env=False) as http:
            body = ASK | {"stream": True}
            url = f"{proxy.url}/v1/chat/completions"
            async with http.stream("POST", url, json=body) as answer:
                async for piece in answer.aiter_bytes():
                    got += piece
    return got


async def test_without_toxics_everything_passes(proxy: FaultProxy) -> None:
    assert (await ask(proxy)).status_code == 200
    assert proxy.accepted == 1


async def test_latency_delays_both_ways(proxy: FaultProxy) -> None:
    proxy.set(latency_ms=60, jitter_ms=5)
    loop = asyncio.get_running_loop()
    began = loop.time()
    await ask(proxy)
    assert 0.11 <= loop.time() - began < 1.0


async def test_one_byte_slices_change_nothing_but_the_packets(proxy: FaultProxy) -> None:
    whole = (await ask(proxy, stream=True)).text
    proxy.set(slice_bytes=1)
    sliced = (await ask(proxy, stream=True)).text
    assert [e["choices"] for e in events_of(sliced)] == [e["choices"] for e in events_of(whole)]


async def test_bandwidth_is_limited(proxy: FaultProxy) -> None:
    proxy.set(bandwidth_bytes_per_s=5000, slice_bytes=100)
    loop = asyncio.get_running_loop()
    began = loop.time()
    size = len((await ask(proxy)).content)
    assert loop.time() - began >= size / 5000


async def test_a_reset_peer_is_felt_as_a_reset(proxy: FaultProxy) -> None:
    proxy.set(reset=True)
    with pytest.raises(httpx.ReadError):
        await ask(proxy)


async def test_a_timeout_swallows_the_request(proxy: FaultProxy, engine: FakeEngine) -> None:
    proxy.set(timeout=True)
    with pytest.raises(httpx.ReadTimeout):
        await ask(proxy, timeout_s=0.2)
    assert engine.served == 0


async def test_data_ends_at_its_limit(proxy: FaultProxy) -> None:
    proxy.set(limit_bytes=400)
    assert len(await raw_stream(proxy)) < 400


@pytest.mark.parametrize("toxic", ["eof_after_events", "reset_after_events"])
async def test_a_stream_ends_after_so_many_events(proxy: FaultProxy, toxic: str) -> None:
    proxy.set(**{toxic: 2})
    assert len(events_of((await raw_stream(proxy)).decode())) == 2


async def test_the_status_may_be_changed(proxy: FaultProxy) -> None:
    proxy.set(status=502)
    assert (await ask(proxy)).status_code == 502


async def test_a_garbled_head_is_refused_by_a_strict_client(proxy: FaultProxy) -> None:
    proxy.set(garbage_header=True)
    with pytest.raises(httpx.RemoteProtocolError):
        await ask(proxy)


async def test_down_refuses_and_up_serves_on_the_same_port(proxy: FaultProxy) -> None:
    await ask(proxy)
    await proxy.down()
    with pytest.raises(httpx.ConnectError):
        await ask(proxy)
    await proxy.up()
    assert (await ask(proxy)).status_code == 200


async def test_a_client_that_leaves_is_felt_behind_the_proxy(
    proxy: FaultProxy, engine: FakeEngine
) -> None:
    engine.set_timing(ttft_floor_ms=3000)
    with pytest.raises(httpx.ReadTimeout):
        await ask(proxy, stream=True, timeout_s=0.2)
    assert (await settled(engine, "p")).kind == "cancelled"


async def test_a_slow_close_keeps_the_connection_open(proxy: FaultProxy) -> None:
    proxy.set(slow_close_ms=200)
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    writer.write(b"GET /health HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
    loop = asyncio.get_running_loop()
    began = loop.time()
    await reader.read()
    assert loop.time() - began >= 0.2
    writer.close()


def test_an_unknown_toxic_is_an_error() -> None:
    with pytest.raises(msgspec.ValidationError):
        FaultProxy("127.0.0.1", 1).set(latency=3)
