from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis

from telemetry.events import SAMPLE_STREAM
from telemetry.nvml.agent import SETTINGS_KEY, Agent
from telemetry.nvml.codec import NodeSample, decode
from tests.telemetry.factories import FakeClock
from tests.telemetry.nvml.driver import STRONG, StubDriver

pytestmark = [pytest.mark.enable_socket, pytest.mark.integration]


def samples(valkey: redis.Redis) -> list[NodeSample]:
    entries: Any = valkey.xrange(SAMPLE_STREAM)
    return [decode(fields[b"e"]) for _, fields in entries]


def wait_for(valkey: redis.Redis, count: int) -> list[NodeSample]:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        if len(found := samples(valkey)) >= count:
            return found
        time.sleep(0.02)
    raise AssertionError(f"{len(samples(valkey))} samples of {count}")


@contextmanager
def running(environment: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "telemetry.nvml.agent"]
    process = subprocess.Popen(command, env={**os.environ, "ACE_NODE_NAME": "a", **environment})
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0


def test_the_agent_reports_gpus_through_the_real_binding(
    valkey: redis.Redis, driver: StubDriver, library_path: Path
) -> None:
    with running({**driver.environment, "LD_LIBRARY_PATH": str(library_path.parent)}):
        first = wait_for(valkey, 1)[0]
        assert [gpu.name for gpu in first.gpus] == ["NVIDIA H200", "Tesla T4"]
        driver.raise_xid(0, 79)
        began, before = time.monotonic(), len(samples(valkey))
        while not any(gpu.xid_errors == (79,) for s in samples(valkey)[before:] for gpu in s.gpus):
            assert time.monotonic() - began < 1.0, "an error must be on its way within a second"
            time.sleep(0.02)


def test_a_host_without_a_driver_is_reported_and_stays_alive(valkey: redis.Redis) -> None:
    with running({"LD_LIBRARY_PATH": ""}) as process:
        sample = wait_for(valkey, 1)[0]
        assert (sample.node, sample.state, sample.gpus) == ("a", "no_driver", ())
        assert process.poll() is None


def test_settings_reach_a_running_agent(
    valkey: redis.Redis, driver: StubDriver, clock: FakeClock
) -> None:
    agent = Agent(valkey, "a", clock)
    assert agent.step().gpus
    valkey.set(SETTINGS_KEY, '{"fields": ["gpu_util"], "interval_ms": 5000}')
    sample = agent.step()
    assert sample.gpus[0].readings == {"gpu_util": 87.0}
    assert sample.interval_ms == 5000
    valkey.set(SETTINGS_KEY, '{"enabled": false}')
    assert agent.step().state == "off"
    agent.sampler.close()


def test_a_redis_that_is_away_costs_samples_and_not_the_agent(
    valkey: redis.Redis, driver: StubDriver, clock: FakeClock
) -> None:
    away = redis.Redis(unix_socket_path="/nonexistent/valkey.sock")
    agent = Agent(away, "a", clock)
    assert agent.step().gpus[0].uuid == STRONG
    agent._redis = valkey
    agent.step()
    assert len(samples(valkey)) == 1
    agent.sampler.close()


def test_it_stops_within_a_second(valkey: redis.Redis, driver: StubDriver) -> None:
    from telemetry.clock import SystemClock

    stop = threading.Event()
    thread = threading.Thread(target=Agent(valkey, "a", SystemClock()).run, args=(stop,))
    thread.start()
    wait_for(valkey, 1)
    stop.set()
    thread.join(3)
    assert not thread.is_alive()
