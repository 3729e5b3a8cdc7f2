from __future__ import annotations

import asyncio

import httpx
import pytest

from gateway.upstream.engines import ENGINES
from gateway.upstream.health import CONCURRENCY, HealthMonitor, Target


class Engines:
    """Answers probes as told, and counts them."""

    def __init__(self) -> None:
        self.status: dict[str, int | type[Exception]] = {}
        self.asked: list[str] = []
        self.at_once = self.most_at_once = 0

    async def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(str(request.url))
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await asyncio.sleep(0)
        self.at_once -= 1
        status = self.status.get(request.url.host, 200)
        if isinstance(status, int):
            return httpx.Response(status, headers={"location": "http://metadata/"})
        raise status("no")


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def engines() -> Engines:
    return Engines()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def monitor(engines: Engines, clock: Clock) -> HealthMonitor:
    return HealthMonitor(httpx.AsyncClient(transport=httpx.MockTransport(engines)), clock)


def target(name: str, engine: str = "vllm") -> Target:
    return Target(name, f"http://{name}", ENGINES[engine])  # type: ignore[index]


async def test_an_endpoint_is_unknown_until_a_probe_answered(monitor: HealthMonitor) -> None:
    monitor.watch([target("a")])
    assert monitor.state("a") == "unknown"
    await monitor.probe_due()
    assert monitor.state("a") == "healthy"


@pytest.mark.parametrize("fault", [503, 302, httpx.ConnectError, httpx.ReadTimeout])
async def test_two_failures_make_an_endpoint_unhealthy_and_one_success_heals_it(
    monitor: HealthMonitor, engines: Engines, clock: Clock, fault: int | type[Exception]
) -> None:
    monitor.watch([target("a")])
    await monitor.probe_due()
    engines.status["a"] = fault
    states = []
    for _ in range(2):
        clock.now += 5
        await monitor.probe_due()
        states.append(monitor.state("a"))
    assert states == ["healthy", "unhealthy"]
    assert monitor.facts["a"].detail
    engines.status["a"] = 200
    clock.now += 5
    await monitor.probe_due()
    assert monitor.state("a") == "healthy"
    assert len(engines.asked) == 4  # a redirect was not followed


async def test_an_engine_is_probed_only_as_often_as_its_kind_bears(
    monitor: HealthMonitor, engines: Engines, clock: Clock
) -> None:
    monitor.watch([target("a", "vllm"), target("b", "sglang")])
    for _ in range(16):
        await monitor.probe_due()
        clock.now += 1
    assert engines.asked.count("http://a/health") == 4
    assert engines.asked.count("http://b/health") == 2


async def test_a_provider_without_a_health_route_stays_unknown(
    monitor: HealthMonitor, engines: Engines
) -> None:
    monitor.watch([target("a", "openai"), target("b", "anthropic")])
    await monitor.probe_due()
    assert engines.asked == []
    assert monitor.state("a") == "unknown"


async def test_only_a_few_probes_run_at_once(monitor: HealthMonitor, engines: Engines) -> None:
    monitor.watch([target(f"e{n}") for n in range(50)])
    await monitor.probe_due()
    assert len(engines.asked) == 50
    assert engines.most_at_once <= CONCURRENCY


async def test_a_moved_endpoint_is_unknown_again_and_a_gone_one_forgotten(
    monitor: HealthMonitor,
) -> None:
    monitor.watch([target("a"), target("b"), target("c")])
    await monitor.probe_due()
    moved = Target("b", "http://elsewhere", ENGINES["vllm"])
    monitor.watch([target("a"), moved])
    assert [monitor.state(name) for name in "abc"] == ["healthy", "unknown", "unknown"]
