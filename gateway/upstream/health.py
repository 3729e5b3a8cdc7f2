"""Active probes: is an engine there at all? Off the hot path, with httpx, a few at a time.

A fact is `unknown` until a probe has answered, and stays so for providers without a health route: absent is not zero.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from http import HTTPStatus
from time import monotonic
from typing import Final, Literal

import httpx

from gateway.upstream.engines.table import Capabilities

State = Literal["healthy", "unhealthy", "unknown"]
CONCURRENCY: Final = 8
TIMEOUT_S: Final = 3.0
FAILURES_TO_UNHEALTHY: Final = 2
"""One lost probe is weather; the breaker sees real traffic anyway."""


@dataclass(frozen=True, slots=True)
class Target:
    endpoint_id: str
    base_url: str
    engine: Capabilities


@dataclass(frozen=True, slots=True)
class HealthFact:
    """What the last probe said. `at_s` is monotonic; `detail` is a short code for the operator."""

    state: State
    at_s: float
    detail: str = ""
    failures: int = 0


UNKNOWN: Final = HealthFact("unknown", 0.0, "not_probed")


class HealthMonitor:
    """Probes the targets each when it is due. `facts` may be read at any time and never waits."""

    def __init__(self, client: httpx.AsyncClient, clock: Callable[[], float] = monotonic) -> None:
        self._client = client
        self._clock = clock
        self._targets: dict[str, Target] = {}
        self._gate = asyncio.Semaphore(CONCURRENCY)
        self.facts: dict[str, HealthFact] = {}

    def watch(self, targets: Iterable[Target]) -> None:
        """Replace the targets, as each snapshot does. An endpoint that moved is unknown again."""
        wanted = {target.endpoint_id: target for target in targets}
        self.facts = {
            name: fact
            for name, fact in self.facts.items()
            if name in wanted and wanted[name] == self._targets.get(name)
        }
        self._targets = wanted

    def state(self, endpoint_id: str) -> State:
        return self.facts.get(endpoint_id, UNKNOWN).state

    async def run(self, pause_s: float = 0.5) -> None:
        """Probe for ever; cancel to stop."""
        while True:
            await self.probe_due()
            await asyncio.sleep(pause_s)

    async def probe_due(self) -> None:
        """One round over the targets whose interval is over."""
        now = self._clock()
        due = [target for target in self._targets.values() if self._is_due(target, now)]
        await asyncio.gather(*map(self._probe, due))

    def _is_due(self, target: Target, now: float) -> bool:
        if target.engine.health_path is None:
            return False
        fact = self.facts.get(target.endpoint_id)
        return fact is None or now - fact.at_s >= target.engine.health_interval_s

    async def _probe(self, target: Target) -> None:
        async with self._gate:
            detail = await self._ask(target)
        if self._targets.get(target.endpoint_id) != target:
            return  # a new snapshot came meanwhile
        before = self.facts.get(target.endpoint_id, UNKNOWN)
        self.facts[target.endpoint_id] = _judge(before, detail, self._clock())

    async def _ask(self, target: Target) -> str:
        """Empty when well, else what is wrong. The body is not read: only the status counts."""
        url = target.base_url.rstrip("/") + (target.engine.health_path or "")
        try:
            async with self._client.stream("GET", url, timeout=TIMEOUT_S) as response:
                healthy = response.status_code == HTTPStatus.OK
                return "" if healthy else f"status_{response.status_code}"
        except httpx.TimeoutException:
            return "timeout"
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            return type(error).__name__


def _judge(before: HealthFact, detail: str, now: float) -> HealthFact:
    if not detail:
        return HealthFact("healthy", now)
    failures = before.failures + 1
    state = "unhealthy" if failures >= FAILURES_TO_UNHEALTHY else before.state
    return HealthFact(state, now, detail, failures)


def probe_client() -> httpx.AsyncClient:
    """No redirects, no proxies from the environment, few connections."""
    return httpx.AsyncClient(
        follow_redirects=False,
        trust_env=False,
        timeout=TIMEOUT_S,
        limits=httpx.Limits(max_connections=CONCURRENCY, max_keepalive_connections=0),
    )
