"""The clock of a fake engine: continuous batching, computed, never slept.

Pure: `advance(now)` moves every sequence as far as a real engine would have got by then and reports tokens
to their sinks; `next_due()` says when to look again. Steps shorter than the caller's timer are run several at
a time, so a fast engine costs no more timers than a slow one.
"""

from __future__ import annotations

from collections import deque
from random import Random
from typing import Protocol

from tests.fakes.engine.blocks import BlockPool, Hold
from tests.fakes.engine.options import Limits, Timing

INSTANT_BURST = 1 << 30


class Sink(Protocol):
    """Who hears of a sequence's progress."""

    def started(self, found_tokens: int) -> None:
        """It left the queue; so many prompt tokens came from the cache."""

    def produced(self, tokens: int) -> None:
        """So many further tokens exist now."""

    def ended_now(self) -> None:
        """Its last token has been produced."""


class Sequence:
    """One answer in the making."""

    __slots__ = (
        "adapter",
        "answer",
        "arrived",
        "cancelled",
        "floor",
        "hold",
        "prefill_left",
        "produced",
        "prompt",
        "salt",
        "sink",
    )

    def __init__(
        self, prompt: list[int], answer: list[int], sink: Sink, *, adapter: str | None, salt: str
    ) -> None:
        self.prompt = prompt
        self.answer = answer
        self.sink = sink
        self.adapter = adapter
        self.salt = salt
        self.arrived = 0.0
        self.floor = 0.0
        self.hold: Hold | None = None
        self.prefill_left = 0
        self.produced = 0
        self.cancelled = False


class Scheduler:
    """Who waits, who runs, and how far they are."""

    def __init__(self, timing: Timing, limits: Limits, pool: BlockPool, dice: Random) -> None:
        self.timing = timing
        self.limits = limits
        self.pool = pool
        self._dice = dice
        self.waiting: deque[Sequence] = deque()
        self.running: list[Sequence] = []
        self._step_end: float | None = None

    @property
    def full(self) -> bool:
        """Whether a further request would be one too many."""
        limits = self.limits
        queued = len(self.waiting) >= limits.max_queued > 0
        return queued and len(self.running) >= limits.max_num_seqs

    def submit(self, sequence: Sequence, now: float) -> None:
        """Queue a sequence."""
        sequence.arrived = now
        sequence.floor = now + self.timing.ttft_floor_ms / 1e3
        self.waiting.append(sequence)
        if self._step_end is None:
            self._step_end = now

    def cancel(self, sequence: Sequence) -> None:
        """Stop a sequence at once; its blocks are free for others from here on."""
        sequence.cancelled = True
        if sequence in self.running:
            self.running.remove(sequence)
            self._release(sequence)
        elif sequence in self.waiting:
            self.waiting.remove(sequence)

    def next_due(self) -> float | None:
        """When the next step ends, on the clock of `advance`; None when nothing is to be done."""
        return self._step_end

    @property
    def deferred(self) -> int:
        """Waiting sequences held back because their adapter finds no slot."""
        active = self._active_adapters()
        if len(active) < self.limits.max_loras:
            return 0
        return sum(s.adapter is not None and s.adapter not in active for s in self.waiting)

    def advance(self, now: float) -> None:
        """Run every step that has ended by `now`."""
        while self._step_end is not None and self._step_end <= now:
            at = self._step_end
            self._finish_step(at)
            self._admit()
            self._step_end = self._end_of_next_step(at)

    def _admit(self) -> None:
        kept: deque[Sequence] = deque()
        while self.waiting and len(self.running) < self.limits.max_num_seqs:
            sequence = self.waiting.popleft()
            if not self._adapter_fits(sequence):
                kept.append(sequence)
                continue
            hold = self.pool.take(
                sequence.prompt, len(sequence.answer), sequence.salt, sequence.adapter
            )
            if hold is None:
                kept.append(sequence)
                break
            sequence.hold = hold
            sequence.prefill_left = len(sequence.prompt) - hold.found_tokens
            self.running.append(sequence)
            sequence.sink.started(hold.found_tokens)
        self.waiting.extendleft(reversed(kept))

    def _adapter_fits(self, sequence: Sequence) -> bool:
        if sequence.adapter is None:
            return True
        active = self._active_adapters()
        return sequence.adapter in active or len(active) < self.limits.max_loras

    def _active_adapters(self) -> set[str]:
        return {s.adapter for s in self.running if s.adapter is not None}

    def _end_of_next_step(self, at: float) -> float | None:
        if not self.running:
            # Whoever still waits, waits for an event from outside; blocks and adapters are all free by now.
            return None
        timing = self.timing
        prefill = sum(s.prefill_left for s in self.running)
        took = prefill / timing.prefill_tokens_per_s if timing.prefill_tokens_per_s else 0.0
        if timing.decode_tokens_per_s:
            took += 1.0 / timing.decode_tokens_per_s + timing.batch_penalty_ms / 1e3 * (
                len(self.running) - 1
            )
        if timing.jitter_ratio:
            took *= 1.0 + timing.jitter_ratio * (2.0 * self._dice.random() - 1.0)
        if took == 0.0 and all(s.floor > at for s in self.running):
            return min(s.floor for s in self.running)
        return at + took

    def _finish_step(self, at: float) -> None:
        burst = 1 if self.timing.decode_tokens_per_s else INSTANT_BURST
        ended = []
        for sequence in list(self.running):
            if sequence.cancelled:  # by the sink of one before it in this very step
                continue
            sequence.prefill_left = 0
            if sequence.floor > at and not sequence.produced:
                continue
            fresh = min(burst, len(sequence.answer) - sequence.produced)
            sequence.produced += fresh
            sequence.sink.produced(fresh)
            if sequence.produced >= len(sequence.answer) and not sequence.cancelled:
                ended.append(sequence)
        for sequence in ended:
            if sequence.cancelled:  # by a later one of this step
                continue
            self.running.remove(sequence)
            self._release(sequence)
            sequence.sink.ended_now()

    def _release(self, sequence: Sequence) -> None:
        if sequence.hold is not None:
            self.pool.release(sequence.hold, sequence.prompt + sequence.answer[: sequence.produced])
            sequence.hold = None
