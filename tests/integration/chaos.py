"""Random trouble for a whole installation: requests of every kind while its parts are killed and frozen."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus

from tests.fakes.engine import FakeEngineProcess
from tests.support.load import Answer, Connection, chat_request
from tests.support.stack import Stack

FAULTS: list[dict[str, object]] = [
    {},
    {"garbage": "html"},
    {"garbage": "truncated_json"},
    {"usage": "absent"},
    {"usage": "zero"},
    {"usage": "twice"},
    {"die_after_events": 0},
    {"die_after_events": 1},
    {"die_after_events": 3},
    {"eof_after_events": 2},
    {"error_event_after_events": 1},
    {"hang_after_events": 1, "times": 2},
    {"error_rate": 0.5, "error_status": 503},
    {"error_rate": 0.5, "error_status": 429, "retry_after": "1"},
]
BAD_BODIES = (b"{", b"[]", b'{"model":"m"}', b'{"model":"m","n":0,"messages":[]}', b"\xff" * 40)
DEADLINE_S = 65.0
"""No answer may take longer, whatever happens: a silent engine has 60 s for its first byte and 30 s between two."""


@dataclass
class Told:
    """What the callers saw."""

    statuses: Counter[int | str] = field(default_factory=Counter)
    slow: list[float] = field(default_factory=list)
    unexplained: list[tuple[int, bytes]] = field(default_factory=list)

    def note(self, answer: Answer, took_s: float) -> None:
        self.statuses[answer.status or answer.error.partition(":")[0]] += 1
        if took_s > DEADLINE_S:
            self.slow.append(took_s)
        if answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR and b'"internal_error"' in answer.body:
            self.unexplained.append((answer.status, answer.body[:300]))


class Chaos:
    def __init__(
        self, stack: Stack, fleet: FakeEngineProcess, keys: list[str], dice: random.Random
    ) -> None:
        self.stack, self.fleet, self.keys, self.dice = stack, fleet, keys, dice
        self.told = Told()
        self.done: list[str] = []

    async def run(self, seconds: float, callers: int) -> None:
        end = time.monotonic() + seconds
        async with asyncio.TaskGroup() as group:
            for number in range(callers):
                group.create_task(self._caller(number, end))
            group.create_task(self._trouble(end))

    # -- callers -------------------------------------------------------------------------------------------------------

    async def _caller(self, number: int, end: float) -> None:
        dice = random.Random(self.dice.random())
        connection = Connection(self.stack.settings.gateway_port, number)
        while time.monotonic() < end:
            began = time.monotonic()
            if dice.random() < 0.15:
                await self._leave_early(dice)
                continue
            answer = await self._ask(connection, self._request(dice))
            self.told.note(answer, time.monotonic() - began)
            await asyncio.sleep(dice.uniform(0, 0.05))
        connection.close()

    async def _ask(self, connection: Connection, request: bytes) -> Answer:
        try:
            return await asyncio.wait_for(connection.ask(request), DEADLINE_S + 5)
        except TimeoutError:
            connection.close()
            return Answer(error="no answer")

    def _request(self, dice: random.Random) -> bytes:
        key = dice.choice(self.keys)
        if dice.random() < 0.1:
            body = dice.choice(BAD_BODIES)
            head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {key}\r\n"
            head += f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
            return head.encode() + body
        fields: dict[str, object] = {"stream": dice.random() < 0.6}
        if dice.random() < 0.7:
            fields["max_tokens"] = dice.choice((1, 8, 30, 200))
        if dice.random() < 0.2:
            fields["n"] = dice.choice((2, 3))
        model = dice.choice(("m", "m", "m", "m", "m", "nobody"))
        return chat_request(key, model, "x" * dice.randrange(1, 400), **fields)

    async def _leave_early(self, dice: random.Random) -> None:
        """Somewhere in the request, before the answer, or in the middle of it."""
        with contextlib.suppress(OSError):
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", self.stack.settings.gateway_port
            )
            request = chat_request(dice.choice(self.keys), "m", "bye", stream=True, max_tokens=30)
            writer.write(request[: dice.choice((20, len(request) - 5, len(request), len(request)))])
            await asyncio.sleep(dice.uniform(0, 0.1))
            if dice.random() < 0.5:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(reader.read(100), 0.2)
            writer.close()
        self.told.statuses["left"] += 1

    # -- trouble -------------------------------------------------------------------------------------------------------

    async def _trouble(self, end: float) -> None:
        kinds: list[Callable[[], None]] = [
            self._change_engine,
            self._change_engine,
            self._kill_engine,
            self._kill_worker,
            self._kill_worker,
            self._kill_redis,
            self._freeze_redis,
            self._flush_redis,
            self._kill_postgres,
            self._kill_ingest,
        ]
        while time.monotonic() < end:
            await asyncio.sleep(self.dice.uniform(0.3, 1.5))
            kind = self.dice.choice(kinds)
            self.done.append(kind.__name__)
            await asyncio.to_thread(kind)
        await asyncio.to_thread(self.calm)

    def calm(self) -> None:
        for engine in self.fleet.engines:
            engine.clear_faults()

    def _change_engine(self) -> None:
        engine = self.dice.choice(self.fleet.engines)
        engine.clear_faults()
        engine.set_faults(**self.dice.choice(FAULTS))

    def _kill_engine(self) -> None:
        engine = self.dice.choice(self.fleet.engines)
        engine.kill()
        time.sleep(0.3)
        engine.revive()

    def _kill_worker(self) -> None:
        if pids := self.stack.gateway_worker_pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.dice.choice(pids), signal.SIGKILL)

    def _kill_redis(self) -> None:
        self.stack.kill("valkey")
        time.sleep(self.dice.uniform(0, 2))
        self.stack.start("valkey")

    def _freeze_redis(self) -> None:
        pid = self.stack.pid("valkey")
        os.kill(pid, signal.SIGSTOP)
        time.sleep(self.dice.uniform(0.2, 5))
        os.kill(pid, signal.SIGCONT)

    def _flush_redis(self) -> None:
        with self.stack.redis() as client:
            client.flushall()

    def _kill_postgres(self) -> None:
        self.stack.kill("postgres")
        time.sleep(self.dice.uniform(0, 1))
        self.stack.start("postgres")

    def _kill_ingest(self) -> None:
        self.stack.kill("ingest")
        self.stack.start("ingest", wait=False)
