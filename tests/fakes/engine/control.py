"""The control port: change engines while they serve, without touching the port under test.

    GET    /engines                  all of them, with addresses and state
    PATCH  /engines/0/timing         {"decode_tokens_per_s": 20}
    PATCH  /engines/0/limits         {"max_num_seqs": 4}
    PATCH  /engines/0/faults         {"error_rate": 1, "error_status": 429, "retry_after": "2"}
    DELETE /engines/0/faults
    POST   /engines/0/kill           as kill -9; POST /engines/0/revive brings it back, empty
    POST   /engines/0/clear_cache    POST /engines/0/kv_skip {"batches": 1}
    GET    /truth                    the truth log so far
    POST   /exit                     ends the process

It listens on loopback only. A JSON answer says what holds now; 400 names the field that was wrong.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import orjson

from tests.fakes.engine.core import FakeEngine
from tests.fakes.engine.http import Exchange, Listener
from tests.fakes.engine.jobs import JSON_TYPE
from tests.fakes.engine.truth import TruthLog

Command = Callable[[FakeEngine, dict[str, Any]], object]


class _NoSuchThingError(Exception):
    """404."""


class ControlServer:
    """One control port for all engines of a process."""

    def __init__(self, engines: Sequence[FakeEngine], truth: TruthLog, port: int = 0) -> None:
        self._engines = engines
        self._truth = truth
        self._tasks: set[asyncio.Task[None]] = set()
        self.listener = Listener(self._handle, port=port)
        self.exit = asyncio.Event()
        self._commands: dict[tuple[str, str], Command] = {
            ("GET", ""): lambda engine, _: describe(engine),
            ("PATCH", "timing"): lambda engine, fields: engine.set_timing(**fields),
            ("PATCH", "limits"): lambda engine, fields: engine.set_limits(**fields),
            ("PATCH", "faults"): lambda engine, fields: engine.set_faults(**fields),
            ("DELETE", "faults"): _clear_faults,
            ("POST", "kill"): lambda engine, _: engine.kill(),
            ("POST", "revive"): self._revive,
            ("POST", "clear_cache"): lambda engine, _: engine.clear_cache(),
            ("POST", "kv_skip"): _kv_skip,
        }

    def _handle(self, exchange: Exchange) -> None:
        try:
            body = orjson.loads(exchange.body or b"{}")
            answer = self._answer(exchange.method, exchange.path.strip("/").split("/"), body)
            self._send(exchange, 200, answer)
        except _NoSuchThingError:
            self._send(
                exchange, 404, {"error": f"no such control: {exchange.method} {exchange.path}"}
            )
        except (orjson.JSONDecodeError, msgspec.ValidationError, TypeError, ValueError) as error:
            self._send(exchange, 400, {"error": str(error)})

    def _answer(self, method: str, parts: list[str], body: dict[str, Any]) -> object:
        match parts:
            case ["engines"] if method == "GET":
                return [describe(engine) for engine in self._engines]
            case ["engines", number, *rest] if number.isdigit() and int(number) < len(
                self._engines
            ):
                command = self._commands.get((method, "/".join(rest)))
                if command is None:
                    raise _NoSuchThingError
                return command(self._engines[int(number)], body) or {}
            case ["truth"] if method == "GET":
                return self._truth.records()
            case ["exit"] if method == "POST":
                self.exit.set()
                return {}
        raise _NoSuchThingError

    def _revive(self, engine: FakeEngine, _: dict[str, Any]) -> None:
        task = asyncio.get_running_loop().create_task(engine.revive(), name="revive a fake engine")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _send(self, exchange: Exchange, status: int, body: object) -> None:
        exchange.respond(status, msgspec.json.encode(body), (JSON_TYPE,))


def _clear_faults(engine: FakeEngine, _: dict[str, Any]) -> object:
    engine.clear_faults()
    return engine.faults


def _kv_skip(engine: FakeEngine, body: dict[str, Any]) -> None:
    if engine.kv is None:
        raise ValueError("this engine publishes no KV events")
    engine.kv.skip(int(body.get("batches", 1)))


def describe(engine: FakeEngine) -> dict[str, Any]:
    """Where an engine is, what it is, and how it does."""
    options = engine.options
    return {
        "name": options.name,
        "personality": options.personality,
        "version": engine.dialect.version,
        "models": options.models,
        "url": engine.url,
        "metrics": engine.url + engine.dialect.metrics_path,
        "kv_events": f"tcp://127.0.0.1:{engine.kv.port}" if engine.kv else None,
        "kv_replay": f"tcp://127.0.0.1:{engine.kv.replay_port}" if engine.kv else None,
        "served": engine.served,
        "load": engine.load()._asdict(),
        "adapters": engine.adapters,
        "timing": engine.scheduler.timing,
        "limits": engine.scheduler.limits,
        "faults": engine.faults,
    }
