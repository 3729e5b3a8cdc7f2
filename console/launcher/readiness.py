"""When is a process ready? Each answers in its own way; nothing is taken for ready because it was started."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

import httpx
import redis

from console.launcher.demo import Demo
from console.launcher.errors import LauncherError
from console.launcher.output import Output
from console.launcher.processes import Service, Supervisor
from console.launcher.settings import LauncherSettings
from telemetry.events import SAMPLE_STREAM

Probe = Callable[[Service], bool]
READY_TIMEOUT_S: Final = 90.0
POLL_S: Final = 0.25
_HTTP_TIMEOUT_S: Final = 2.0


@dataclass(frozen=True)
class HttpProbe:
    """Ready when `url` answers, without an error, with a text that holds `contains`."""

    url: str
    headers: Mapping[str, str] | None = None
    contains: str = ""

    def __call__(self, _service: Service) -> bool:
        with httpx.Client(timeout=_HTTP_TIMEOUT_S, trust_env=False) as client:
            try:
                answer = client.get(self.url, headers=self.headers)
            except httpx.HTTPError:
                return False
        return not answer.is_error and self.contains in answer.text


@dataclass(frozen=True)
class OutputProbe:
    """Ready when the process has said so."""

    pattern: str

    def __call__(self, service: Service) -> bool:
        return service.said(re.compile(self.pattern))


@dataclass
class TickProbe:
    """Ready when the value of a Redis key changes: somebody writes it now, not an earlier run."""

    redis_url: str
    key: str
    _first: bytes | None = None

    def __call__(self, _service: Service) -> bool:
        try:
            with redis.Redis.from_url(self.redis_url) as client:
                value = client.get(self.key)
        except redis.RedisError:
            return False
        if not isinstance(value, bytes):
            return False
        changed = self._first is not None and value != self._first
        self._first = value
        return changed


@dataclass(frozen=True)
class StreamProbe:
    """Ready when the newest entry of a Redis stream is younger than this probe."""

    redis_url: str
    stream: str
    since_ms: int = field(default_factory=lambda: time.time_ns() // 1_000_000)

    def __call__(self, _service: Service) -> bool:
        try:
            with redis.Redis.from_url(self.redis_url) as client:
                newest = client.xrevrange(self.stream, count=1)
        except redis.RedisError:
            return False
        return bool(newest) and int(newest[0][0].split(b"-")[0]) >= self.since_ms


def probes(settings: LauncherSettings) -> dict[str, Probe]:
    """One for each line of the Procfile."""
    return {
        "console": HttpProbe(f"{settings.console_url}/sign-in/"),
        "gateway": HttpProbe(f"{settings.gateway_url}/readyz"),
        "ingest": TickProbe(settings.redis_url, "ace:live"),
        "worker": OutputProbe(r"celery@\S+ ready"),
        "beat": OutputProbe(r"beat .*is starting"),
        "agent": StreamProbe(settings.redis_url, SAMPLE_STREAM),
        "pod": HttpProbe(f"{settings.pod_url}/health"),
    }


def models_probe(settings: LauncherSettings, demo: Demo) -> Probe:
    """The key from the seed opens the gateway, and the model it may use is there."""
    headers = {"Authorization": f"Bearer {demo.api_key}"}
    return HttpProbe(f"{settings.gateway_url}/v1/models", headers, contains=demo.model)


class Patience:
    """Waits for processes; one that ends meanwhile, or is too late, stops the start with its name."""

    def __init__(self, supervisor: Supervisor, output: Output) -> None:
        self._supervisor = supervisor
        self._output = output
        self._started = time.monotonic()

    def until_ready(self, waiting: Mapping[str, Probe]) -> None:
        late = dict(waiting)
        while late:
            self._supervisor.poll(restart=False)
            for name in [name for name, probe in late.items() if self._done(name, probe)]:
                del late[name]
            if late and self._elapsed_s() > READY_TIMEOUT_S:
                names = ", ".join(late)
                raise LauncherError(f"not ready after {READY_TIMEOUT_S:.0f} s: {names}")
            time.sleep(POLL_S)

    def _done(self, name: str, probe: Probe) -> bool:
        service = self._supervisor.services[name]
        if not service.unavailable and not probe(service):
            return False
        state = "left out" if service.unavailable else "ready"
        self._output.line("ace", f"{name} {state} ({self._elapsed_s():.1f} s)")
        return True

    def _elapsed_s(self) -> float:
        return time.monotonic() - self._started
