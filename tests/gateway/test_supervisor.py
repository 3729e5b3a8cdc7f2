"""Real processes: workers on one port, killed and born again, each accepted request with exactly one row."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
import redis

from tests.gateway import rig

pytestmark = [pytest.mark.enable_socket, pytest.mark.integration]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def environment(home: Path, port: int, workers: int) -> dict[str, str]:
    return {
        **os.environ,
        "ACE_HOME": str(home),
        "ACE_GATEWAY_PORT": str(port),
        "ACE_GATEWAY_WORKERS": str(workers),
        "ACE_KEY_PEPPER": rig.PEPPER.hex(),
        "ACE_SNAPSHOT_SECRET": rig.SECRET.hex(),
        "ACE_DRAIN_SECONDS": "3",
    }


@contextmanager
def supervised(home: Path, workers: int = 1) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, "-m", "gateway"],
        env=environment(home, port, workers),
        stderr=subprocess.DEVNULL,
    )
    try:
        yield process, f"http://127.0.0.1:{port}"
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait(15)


def children(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(child) for child in text.split()]


async def ready(url: str) -> None:
    async with rig.client(url) as client:
        for _ in range(400):
            try:
                if (await client.get("/readyz")).status_code == 200:
                    return
            except httpx.HTTPError:
                pass
            await asyncio.sleep(0.025)
    raise AssertionError("the gateway did not become ready")


async def test_killed_workers_come_back_and_lose_no_row(
    tmp_path: Path, valkey: redis.Redis
) -> None:
    async def slow(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter, body: dict[str, object]
    ) -> None:
        await asyncio.sleep(0.02)
        await rig.answer_all(reader, writer, body)

    async with rig.Engine(slow) as engine, rig.Ledger(os.environ["REDIS_URL"]) as ledger:
        budgets = (rig.budget(10_000_000),)
        rig.publish(valkey, rig.snapshot(ports=(engine.port,), budgets=budgets))
        with supervised(tmp_path, workers=2) as (process, url):
            await ready(url)
            stop = asyncio.Event()
            traffic = [asyncio.create_task(_traffic(url, stop)) for _ in range(6)]
            for n in range(6):
                await asyncio.sleep(0.35)
                before = children(process.pid)
                os.kill(before[n % len(before)], signal.SIGKILL)
            await asyncio.sleep(1.5)
            assert len(children(process.pid)) == 2
            stop.set()
            await asyncio.gather(*traffic)
            accepted = len(engine.seen)
            await rig.eventually(lambda: len(ledger.rows) >= accepted, 10)
            await asyncio.sleep(0.5)
        ids = [row.request_id for row in ledger.rows]
        assert len(ids) == len(set(ids)), "nothing twice"
        # A worker may die between recording a request and sending it: a row, no engine. Never the other way round.
        assert len(ids) >= accepted
        finished = [row for row in ledger.rows if row.outcome != "interrupted"]
        assert all(row.billed_microusd == 20 for row in finished)
        assert len(finished) > 20


async def _traffic(url: str, stop: asyncio.Event) -> None:
    while not stop.is_set():
        async with rig.client(url) as client:
            try:
                while not stop.is_set():
                    await client.post("/v1/chat/completions", json=rig.ask())
            except httpx.HTTPError:
                await asyncio.sleep(0.01)


async def test_a_killed_worker_is_replaced_within_a_second(
    tmp_path: Path, valkey: redis.Redis
) -> None:
    rig.publish(valkey, rig.snapshot())
    with supervised(tmp_path) as (process, url):
        await ready(url)
        await asyncio.sleep(1.0)
        [old] = children(process.pid)
        os.kill(old, signal.SIGKILL)
        began = time.monotonic()
        await ready(url)
        assert time.monotonic() - began < 1.0
        assert children(process.pid) != [old]


async def test_a_killed_supervisor_takes_its_workers_along(
    tmp_path: Path, valkey: redis.Redis
) -> None:
    rig.publish(valkey, rig.snapshot())
    with supervised(tmp_path) as (process, url):
        await ready(url)
        [worker] = children(process.pid)
        process.kill()
        process.wait(5)
        await rig.eventually(lambda: not _lives(worker))


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def test_a_stop_lets_streams_finish(tmp_path: Path, valkey: redis.Redis) -> None:
    async def slow_stream(
        _: asyncio.StreamReader, writer: asyncio.StreamWriter, __: dict[str, object]
    ) -> None:
        writer.write(rig.STREAM_HEAD + rig.chunk(rig.token("first")))
        await asyncio.sleep(1.0)
        rest = (rig.token("last"), rig.usage_event(1, 2), rig.DONE)
        writer.write(b"".join(rig.chunk(event) for event in rest) + b"0\r\n\r\n")

    async with rig.Engine(slow_stream) as engine:
        rig.publish(valkey, rig.snapshot(ports=(engine.port,)))
        with supervised(tmp_path) as (process, url):
            await ready(url)
            async with (
                rig.client(url) as client,
                client.stream("POST", "/v1/chat/completions", json=rig.ask(stream=True)) as answer,
            ):
                process.terminate()
                text = b"".join([part async for part in answer.aiter_bytes()])
            assert text.endswith(rig.DONE)
            assert await asyncio.to_thread(process.wait, 10) == 0


def test_a_port_in_use_is_one_clear_line(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = subprocess.run(
            [sys.executable, "-m", "gateway"],
            env=environment(tmp_path, port, 1),
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert f"{port} is in use" in done.stderr


def test_a_missing_secret_is_one_clear_line(tmp_path: Path) -> None:
    env = environment(tmp_path, 0, 1) | {"ACE_KEY_PEPPER": ""}
    done = subprocess.run(
        [sys.executable, "-m", "gateway"],
        env=env,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 2
    assert "ACE_KEY_PEPPER" in done.stderr
