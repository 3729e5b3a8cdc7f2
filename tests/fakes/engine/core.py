"""A fake engine in this process: a port that speaks as vLLM, SGLang or TensorRT-LLM would, and does as it is told.

async with FakeEngine(EngineOptions(personality="vllm", models=("llama",))) as engine:
    engine.set_faults(die_after_events=3)
    ... send requests to engine.url ...
    assert outcomes(engine.truth.records())["req-1"].kind == "cut"
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

from tests.fakes.engine.blocks import BlockPool, StoredBlocks
from tests.fakes.engine.dialects import dialect_of
from tests.fakes.engine.dialects.base import Load
from tests.fakes.engine.http import Header, Listener
from tests.fakes.engine.jobs import Job
from tests.fakes.engine.kvevents import KVEventPublisher
from tests.fakes.engine.lexicon import Lexicon
from tests.fakes.engine.metrics import EngineStats
from tests.fakes.engine.options import EngineOptions, Faults, Limits, Timing, changed
from tests.fakes.engine.routes import Routes
from tests.fakes.engine.scheduler import Scheduler
from tests.fakes.engine.truth import Record, TruthLog, now

TIMER_S = 0.001
"""Tokens due within this time are sent together; finer timers cost more than they tell."""


class FakeEngine:
    """One engine on one port. Everything about it but `options` may be changed while it serves."""

    def __init__(
        self,
        options: EngineOptions | None = None,
        *,
        truth: TruthLog | Path | None = None,
        port: int = 0,
    ) -> None:
        self.options = options or EngineOptions()
        self.truth = truth if isinstance(truth, TruthLog) else TruthLog(truth)
        self.dialect = dialect_of(self.options)
        self.words = Lexicon()
        self.faults = Faults()
        self.dice = Random(self.options.seed)
        self.adapters: dict[str, str] = {}
        self.served = 0
        self.jobs: set[Job] = set()
        self.kv: KVEventPublisher | None = None
        self._listener = Listener(Routes(self).handle, port=port)
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._forget_state()

    def _forget_state(self) -> None:
        options = self.options
        pool = BlockPool(
            options.limits.num_blocks,
            options.limits.block_tokens,
            uuid4().hex,  # block names differ between engines and between starts of one engine
            self._stored,
            self._removed,
        )
        self.scheduler = Scheduler(options.timing, options.limits, pool, self.dice)
        self.stats = EngineStats(now())
        self.adapters.clear()

    # life
    async def start(self) -> Self:
        self._loop = asyncio.get_running_loop()
        await self._listener.open()
        number = self.dialect.number
        if self.options.kv_events and self.kv is None:
            topic = f"kv@{self.options.name}@{self.options.models[0]}"
            maps = self.options.personality != "vllm" or number >= (0, 24)
            self.kv = KVEventPublisher(topic, self.options.limits.block_tokens, as_maps=maps)
        return self

    async def stop(self) -> None:
        self._cut_jobs("stopped")
        await self._listener.close()
        if self.kv is not None:
            self.kv.close()
            self.kv = None
        self.truth.close()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()

    @property
    def port(self) -> int:
        return self._listener.port

    @property
    def url(self) -> str:
        """Without /v1."""
        return f"http://127.0.0.1:{self.port}"

    # control
    def set_timing(self, **fields: Any) -> Timing:
        self.scheduler.timing = changed(self.scheduler.timing, fields)
        return self.scheduler.timing

    def set_limits(self, **fields: Any) -> Limits:
        """Queue, batch and adapter limits; sizes of blocks and context stay what they were at start."""
        self.scheduler.limits = changed(self.scheduler.limits, fields)
        return self.scheduler.limits

    def set_faults(self, **fields: Any) -> Faults:
        """Change some faults and leave the others as they are; `clear_faults` ends them all."""
        self.faults = changed(self.faults, fields)
        return self.faults

    def clear_faults(self) -> None:
        self.faults = Faults()

    def clear_cache(self) -> None:
        self.scheduler.pool.clear()
        if self.kv is not None:
            self.kv.cleared()

    def kill(self) -> None:
        """As kill -9: connections are reset, the port refuses, running requests are lost."""
        self._note("kill")
        self._cut_jobs("killed")
        self._listener.cut()

    async def revive(self) -> None:
        """Back on the same port after `kill`: with an empty cache, no adapters and counters at zero."""
        self._note("revive")
        self._forget_state()
        if self.kv is not None:
            self.kv.restart()
        await self._listener.open()

    def _cut_jobs(self, why: str) -> None:
        for job in list(self.jobs):
            job.fail(why)

    def _note(self, command: str) -> None:
        self.truth.write(Record("control", self.now(), self.options.name, why=command))

    # for jobs and routes
    def now(self) -> float:
        return now()

    def clock(self) -> float:
        return self._loop.time()

    def call_later(self, delay_s: float, job: Job) -> None:
        self._loop.call_later(delay_s, job.begin)

    def base_headers(self, request_id: str) -> tuple[Header, ...]:
        server: Header = (b"server", b"uvicorn")
        if self.options.request_id_headers and request_id:
            return (server, (b"x-request-id", request_id.encode("latin-1")))
        return (server,)

    def submit(self, job: Job) -> None:
        for lane in job.lanes:
            self.scheduler.submit(lane.sequence, self.clock())
        self._arm_now()

    def load(self) -> Load:
        scheduler, pool = self.scheduler, self.scheduler.pool
        waiting = len(scheduler.waiting)
        return Load(
            len(scheduler.running), waiting, scheduler.deferred, pool.usage_ratio, pool.used_blocks
        )

    def started(self, job: Job, prompt_tokens: int, found_tokens: int) -> None:
        stats = self.stats
        stats.queried_tokens += prompt_tokens
        stats.cached_tokens += found_tokens
        stats.prompt_tokens += prompt_tokens
        stats.queue_time.observe(self.clock() - job.arrived)
        stats.adapters = tuple(sorted({s.adapter for s in self.scheduler.running if s.adapter}))

    def finished(self, job: Job, *, aborted: bool = False) -> None:
        self.jobs.discard(job)
        stats, ended = self.stats, self.clock()
        stats.generated_tokens += job.produced
        stats.request_prompt_tokens.observe(job.prompt_tokens)
        stats.request_generated_tokens.observe(job.produced)
        stats.latency.observe(ended - job.arrived)
        if job.first_token_at:
            stats.ttft.observe(job.first_token_at - job.arrived)
            stats.token_gap.observe((ended - job.first_token_at) / max(1, job.produced - 1))
        for lane in job.lanes:
            reason = lane.choice.finish_reason
            stats.ended["abort" if aborted else "length" if reason == "length" else "stop"] += 1
        if aborted:
            self._arm()

    # the engine's clock
    def _pump(self) -> None:
        self._timer = None
        self.scheduler.advance(self._loop.time())
        self._arm()

    def _arm_now(self) -> None:
        # A new request starts at once when the engine is idle; otherwise the running step must end first.
        due = self.scheduler.next_due()
        if due is not None and due <= self._loop.time():
            if self._timer is not None:
                self._timer.cancel()
            self._pump()
        else:
            self._arm()

    def _arm(self) -> None:
        due = self.scheduler.next_due()
        if due is None:
            return
        if self._timer is not None:
            if self._timer_at <= due:
                return
            self._timer.cancel()
        # uvloop's handle of a timer that is due at once has no `when`.
        self._timer_at = max(due, self._loop.time() + TIMER_S)
        self._timer = self._loop.call_at(self._timer_at, self._pump)

    def _stored(self, blocks: StoredBlocks) -> None:
        if self.kv is not None:
            self.kv.stored(blocks)

    def _removed(self, names: list[int]) -> None:
        if self.kv is not None:
            self.kv.removed(names)
