"""One process on each GPU node: samples its GPUs and says so, also when there are none.

python -m telemetry.nvml.agent
"""

from __future__ import annotations

import logging
import signal
import threading
from typing import Final, cast

import redis

from telemetry.clock import Clock, SystemClock
from telemetry.events import SAMPLE_STREAM
from telemetry.nvml.codec import NodeSample, encode
from telemetry.nvml.sampler import Sampler
from telemetry.nvml.settings import AgentSettings, Surroundings, read_settings

SETTINGS_KEY: Final = "ace:agent:settings"
"""As `policies.schema.wire.AGENT_SETTINGS_KEY` spells it; a test compares the two."""

STREAM_LENGTH: Final = 2000
QUIET_S: Final = 5.0
"""Interval of a node that has nothing to measure: often enough to be known alive."""

logger = logging.getLogger("telemetry.nvml.agent")


class Agent:
    def __init__(self, client: redis.Redis, node: str, clock: Clock) -> None:
        self._redis = client
        self._clock = clock
        self.sampler: Final = Sampler(node, clock)
        self._settings = AgentSettings()
        self._unreachable = False

    def run(self, stop: threading.Event) -> None:
        """Until `stop`. A Redis that is away costs samples, never the agent."""
        due = self._clock.monotonic_s()
        while not stop.is_set():
            sample = self.step()
            due = max(due + self._pause_s(sample), self._clock.monotonic_s())
            self._wait(stop, due)
        self.sampler.close()

    def step(self) -> NodeSample:
        """Read the settings, take one sample, send it."""
        alarm = self.sampler.alarm
        alarm.clear()
        try:
            raw = cast("bytes | None", self._redis.get(SETTINGS_KEY))
            self._settings = read_settings(raw, self._settings)
        except redis.RedisError:
            pass  # the last settings hold; sending below says that Redis is away
        sample = self.sampler.sample(self._settings)
        self._send(sample)
        return sample

    def _send(self, sample: NodeSample) -> None:
        try:
            self._redis.xadd(
                SAMPLE_STREAM, {"e": encode(sample)}, maxlen=STREAM_LENGTH, approximate=True
            )
        except redis.RedisError as error:
            if not self._unreachable:
                logger.warning("samples are lost while Redis is unreachable: %s", error)
            self._unreachable = True
        else:
            self._unreachable = False

    def _pause_s(self, sample: NodeSample) -> float:
        interval = self._settings.interval_s
        return interval if sample.state == "ok" else max(interval, QUIET_S)

    def _wait(self, stop: threading.Event, due: float) -> None:
        """Until the next sample, or until a GPU raises an error: that is worth a sample at once."""
        while not stop.is_set():
            left = due - self._clock.monotonic_s()
            if left <= 0 or self.sampler.alarm.wait(min(left, 0.5)):
                return


def main() -> None:
    logging.basicConfig(level="INFO", format="%(asctime)s %(levelname)s %(name)s %(message)s")
    surroundings = Surroundings.from_environment()
    client = redis.Redis.from_url(
        surroundings.redis_url, socket_timeout=2.0, socket_connect_timeout=2.0
    )
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    Agent(client, surroundings.node, SystemClock()).run(stop)


if __name__ == "__main__":
    main()
