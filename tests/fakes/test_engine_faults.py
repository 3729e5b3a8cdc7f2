"""Engines that misbehave on command, and what their clients see of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import msgspec
import pytest

from tests.fakes.engine import FakeEngine, outcomes
from tests.fakes.test_engine import ASK, ask, events_of, settled

pytestmark = pytest.mark.enable_socket


@pytest.fixture
async def engine() -> AsyncIterator[FakeEngine]:
    async with FakeEngine() as engine:
        yield engine


@pytest.fixture
async def http(engine: FakeEngine) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=engine.url, trust_env=False, timeout=5) as client:
        yield client


async def read_stream(http: httpx.AsyncClient) -> tuple[list[Any], Exception | None]:
    """All events that came, and the error that ended them."""
    text = ""
    try:
        async with http.stream(
            "POST",
            "/v1/chat/completions",
            json=ASK | {"stream": True},
            headers={"x-request-id": "s"},
        ) as answer:
            async for piece in answer.aiter_text():
                text += piece
    except httpx.HTTPError as error:
        return events_of(text), error
    return events_of(text), None


async def test_injected_errors_carry_status_and_retry_after(
    engine: FakeEngine, http: httpx.AsyncClient
) -> None:
    engine.set_faults(error_rate=1, error_status=429, retry_after="7", times=2)
    answers = [await ask(http) for _ in range(3)]
    assert [a.status_code for a in answers] == [429, 429, 200]
    assert answers[0].headers["retry-after"] == "7"
    assert answers[0].json()["error"]["code"] == 429


async def test_an_error_rate_hits_about_its_share(
    engine: FakeEngine, http: httpx.AsyncClient
) -> None:
    engine.set_faults(error_rate=0.3)
    statuses = [(await ask(http)).status_code for _ in range(100)]
    assert 15 < statuses.count(500) < 45


@pytest.mark.parametrize("fault", ["die_after_events", "eof_after_events"])
async def test_a_stream_is_cut_after_exactly_so_many_events(
    engine: FakeEngine, http: httpx.AsyncClient, fault: str
) -> None:
    engine.set_faults(**{fault: 3})
    events, error = await read_stream(http)
    assert len(events) == 3
    assert isinstance(error, httpx.ReadError | httpx.RemoteProtocolError)
    last = await settled(engine, "s")
    assert (last.kind, last.events_sent, engine.load().running) == ("cut", 3, 0)


async def test_a_stream_that_hangs_is_cancelled_by_its_client(
    engine: FakeEngine, http: httpx.AsyncClient
) -> None:
    engine.set_faults(hang_after_events=2)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(read_stream(http), 0.3)
    last = await settled(engine, "s")
    assert (last.kind, last.events_sent) == ("cancelled", 2)


async def test_a_hanging_engine_sends_no_byte(engine: FakeEngine, http: httpx.AsyncClient) -> None:
    engine.set_faults(hang=True)
    with pytest.raises(httpx.ReadTimeout):
        await http.post(
            "/v1/chat/completions", json=ASK, timeout=0.2, headers={"x-request-id": "h"}
        )
    assert (await settled(engine, "h")).kind == "cancelled"


async def test_an_error_event_comes_with_status_200(
    engine: FakeEngine, http: httpx.AsyncClient
) -> None:
    engine.set_faults(error_event_after_events=2)
    answer = await ask(http, stream=True)
    events = events_of(answer.text)
    assert answer.status_code == 200
    assert events[-1]["error"]["code"] == 500
    assert answer.text.endswith("data: [DONE]\n\n")


@pytest.mark.parametrize("kind", ["html", "bytes", "truncated_json"])
@pytest.mark.parametrize("stream", [True, False])
async def test_garbage_comes_with_status_200(
    engine: FakeEngine, http: httpx.AsyncClient, kind: str, *, stream: bool
) -> None:
    engine.set_faults(garbage=kind)
    answer = await ask(http, stream=stream)
    assert answer.status_code == 200
    with pytest.raises(ValueError, match=r"."):
        answer.json()


async def test_usage_may_be_missing_zero_or_doubled(
    engine: FakeEngine, http: httpx.AsyncClient
) -> None:
    options: dict[str, Any] = {"stream": True, "stream_options": {"include_usage": True}}
    found = {}
    for usage in ("absent", "zero", "twice"):
        engine.set_faults(usage=usage)
        events = events_of((await ask(http, **options)).text)
        found[usage] = [e["usage"]["completion_tokens"] for e in events if e.get("usage")]
    assert found["absent"] == []
    assert found["zero"] == [0]
    assert found["twice"][0] < found["twice"][1]


async def test_flipped_tokens_change_the_text_and_not_the_count(
    engine: FakeEngine, http: httpx.AsyncClient
) -> None:
    clean = (await ask(http)).json()
    engine.set_faults(flip_rate=0.5)
    spoiled = (await ask(http)).json()
    assert clean["usage"] == spoiled["usage"]
    assert clean["choices"][0]["message"] != spoiled["choices"][0]["message"]


async def test_a_killed_engine_refuses_and_comes_back_empty(
    engine: FakeEngine, http: httpx.AsyncClient
) -> None:
    engine.set_timing(ttft_floor_ms=5000)
    lost = asyncio.ensure_future(
        http.post("/v1/chat/completions", json=ASK, headers={"x-request-id": "lost"})
    )
    await asyncio.sleep(0.05)
    engine.kill()
    with pytest.raises(httpx.TransportError):
        await lost
    with pytest.raises(httpx.ConnectError):
        await ask(http)
    assert outcomes(engine.truth.records())["lost"].why == "killed"
    await engine.revive()
    assert (await ask(http, max_tokens=1)).status_code == 200
    assert engine.stats.ended["length"] == 1


async def test_latency_delays_the_first_byte(engine: FakeEngine, http: httpx.AsyncClient) -> None:
    engine.set_faults(latency_ms=150)
    loop = asyncio.get_running_loop()
    began = loop.time()
    await ask(http, stream=True)
    assert 0.15 <= loop.time() - began < 1.0


async def test_metrics_and_health_can_be_taken_away(
    engine: FakeEngine, http: httpx.AsyncClient
) -> None:
    engine.set_faults(unhealthy=True, metrics_absent=["vllm:kv_cache_usage_perc"])
    assert (await http.get("/health")).status_code == 503
    assert "kv_cache_usage_perc" not in (await http.get("/metrics")).text


def test_an_unknown_fault_is_an_error() -> None:
    with pytest.raises(msgspec.ValidationError, match="diee_after_events"):
        FakeEngine().set_faults(diee_after_events=1)
