"""What one request costs: CPU and requests per second of each gateway on the same upstream, on one core.

Ours does authentication, rate limits, a two-level money hold, fence, breaker, usage parsing, billing
and a durable event; what each peer does is printed beside it.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from benchmarks import process
from benchmarks.ace import Ground, ground
from benchmarks.peers import PEERS, Peer
from benchmarks.report import Row, row
from gateway import native

CONNECTIONS: Final = 32
WARM_SECONDS: Final = 1.0
STREAM_CHUNKS: Final = 64
FEW_REQUESTS: Final = 100
"""A gateway that does no more in its check is measured longer."""
OURS: Final = "ace-gateway"
BUILDS: Final = {"compiled": "auto", "plain Python": "off"}
"""Builds of ours that are measured, and the ACE_NATIVE that chooses each."""


@dataclass(frozen=True)
class Settings:
    folder: Path
    native: Mapping[str, Path]
    rounds: int
    seconds: float
    peers: set[str] | None
    """None: all of them."""


@dataclass
class Subject:
    """A gateway that is up, with what each round measured of it."""

    name: str
    port: int
    pid: int
    headers: Mapping[str, str]
    build: str = ""
    """Of ours: one of BUILDS."""
    seconds: dict[str, float] = field(default_factory=dict)
    """Shapes it answers, and how long a load must be at least: more where little is done in a second."""
    cpu_us: dict[str, list[float]] = field(default_factory=dict)
    rate: dict[str, list[float]] = field(default_factory=dict)


def measure(settings: Settings) -> list[Row]:
    with ExitStack() as stack:
        engine_port = _start_engine(stack, settings)
        subjects = [stack.enter_context(_ours(settings, engine_port, build)) for build in _builds()]
        for peer in PEERS:
            if settings.peers is None or peer.name in settings.peers:
                _start_peer(stack, settings, peer, engine_port, subjects)
        for number in range(settings.rounds):
            for subject in subjects:
                for shape in subject.seconds:
                    _round(settings, subject, shape)
            print(f"round {number + 1} of {settings.rounds} done", flush=True)
    return list(_rows(subjects))


def _start_engine(stack: ExitStack, settings: Settings) -> int:
    port = process.free_port()
    command = [str(settings.native["engine"]), str(port), str(STREAM_CHUNKS)]
    log = settings.folder / "engine.log"
    running = process.running(command, core=process.LOAD_CORE, log=log)
    process.wait_for_port(port, stack.enter_context(running))
    return port


def _builds() -> Iterator[str]:
    missing = native.enable()
    for build in BUILDS:
        if build == "compiled" and missing:
            print(f"{OURS}, compiled: skipped, {missing}")
        else:
            yield build


@contextmanager
def _ours(settings: Settings, engine_port: int, build: str) -> Iterator[Subject]:
    name = build.split(maxsplit=1)[0]
    with ground(settings.folder / f"home-{name}", engine_port) as base:
        port = process.free_port()
        env = {**base.env, "ACE_GATEWAY_PORT": str(port), "ACE_NATIVE": BUILDS[build]}
        log = settings.folder / f"ace-{name}.log"
        command = [sys.executable, "-m", "gateway"]
        with process.running(command, core=process.GATEWAY_CORE, log=log, env=env) as up:
            process.wait_for_port(port, up)
            subject = Subject(OURS, port, up.pid, _bearer(base), build)
            _check(settings, subject)
            yield subject


def _bearer(base: Ground) -> dict[str, str]:
    return {"authorization": f"Bearer {base.api_key}"}


def _start_peer(
    stack: ExitStack, settings: Settings, peer: Peer, engine_port: int, subjects: list[Subject]
) -> None:
    print(f"{peer.name}: preparing", flush=True)
    reason = peer.ensure()
    if reason:
        print(f"{peer.name}: skipped, {reason}")
        return
    port = process.free_port()
    log = settings.folder / f"{peer.name}.log"
    try:
        up = stack.enter_context(
            process.running(
                peer.command(peer.folder(), port, engine_port),
                core=process.GATEWAY_CORE,
                log=log,
                env=peer.env,
                cwd=settings.folder,
            )
        )
        process.wait_for_port(port, up, peer.start_seconds)
        subject = Subject(peer.name, port, up.pid, peer.headers(engine_port))
        _check(settings, subject)
    except (OSError, RuntimeError) as error:
        print(f"{peer.name}: skipped, {error}: {_last_line(log)}")
        return
    subjects.append(subject)


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()
    return lines[-1].strip() if lines else "it said nothing"


def _check(settings: Settings, subject: Subject) -> None:
    """What a gateway answers with errors is not measured: it would look fast."""
    for shape in SHAPES:
        for seconds in (1.5, 1.5, 3.0, 6.0, 6.0):
            figures = _load(settings, subject, shape, seconds=seconds)
            if figures["requests"] and not figures["errors"]:
                subject.seconds[shape] = seconds if figures["requests"] < FEW_REQUESTS else 0.0
                break
        else:
            print(f"{subject.name}, {shape}: skipped, it answers with errors")
    if not subject.seconds:
        raise RuntimeError("it answers nothing without errors")


def _round(settings: Settings, subject: Subject, shape: str) -> None:
    _load(settings, subject, shape, seconds=WARM_SECONDS)
    before = process.cpu_ns(subject.pid)
    seconds = max(settings.seconds, 2 * subject.seconds[shape])
    figures = _load(settings, subject, shape, seconds=seconds)
    spent = process.cpu_ns(subject.pid) - before
    if figures["errors"]:
        raise RuntimeError(f"{subject.name}: {figures['errors']:.0f} errors under {shape} load")
    subject.cpu_us.setdefault(shape, []).append(spent / 1000 / figures["requests"])
    rate = figures["requests"] / figures["seconds"]
    subject.rate.setdefault(shape, []).append(rate)


def _load(settings: Settings, subject: Subject, shape: str, *, seconds: float) -> dict[str, float]:
    path = settings.folder / f"{subject.name}-{shape}.request"
    path.write_bytes(_request(subject, shape))
    command = [str(settings.native["load"]), str(subject.port), str(CONNECTIONS), str(seconds)]
    pinned = ["taskset", "-c", str(process.LOAD_CORE), *command, str(path)]
    figures: dict[str, float] = json.loads(
        subprocess.run(pinned, check=True, capture_output=True, timeout=seconds + 60).stdout
    )
    return figures


def _request(subject: Subject, shape: str) -> bytes:
    body = json.dumps({**BODY, **SHAPES[shape]}).encode()
    head = [
        "POST /v1/chat/completions HTTP/1.1",
        f"host: 127.0.0.1:{subject.port}",
        "content-type: application/json",
        *(f"{name}: {value}" for name, value in subject.headers.items()),
        f"content-length: {len(body)}",
    ]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + body


BODY: Final = {
    "model": "m",
    "messages": [
        {"role": "system", "content": "You are a helpful assistant."},
        {"role": "user", "content": "Say something about gateways in about thirty words."},
    ],
    "temperature": 0.2,
    "max_tokens": 64,
}
SHAPES: Final[dict[str, dict[str, bool]]] = {"unary": {}, "stream": {"stream": True}}


def _rows(subjects: list[Subject]) -> Iterator[Row]:
    others = {subject.name: subject for subject in subjects if not subject.build}
    for ours in (subject for subject in subjects if subject.build):
        for shape in SHAPES:
            for peer in PEERS:
                yield from _compared(ours, peer.name, others.get(peer.name), shape)


def _compared(ours: Subject, peer: str, other: Subject | None, shape: str) -> Iterator[Row]:
    for name, unit, figures in (
        (f"cpu_per_request_{shape}", "µs/request", "cpu_us"),
        (f"requests_per_core_{shape}", "requests/s", "rate"),
    ):
        value = statistics.median(getattr(ours, figures)[shape])
        measured = getattr(other, figures).get(shape) if other is not None else None
        peer_value = statistics.median(measured) if measured else None
        yield row(name, unit, value, peer, peer_value, ours.build)
