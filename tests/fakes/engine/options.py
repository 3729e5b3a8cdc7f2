"""What a fake engine is told: what it pretends to be, how fast it is, and how it misbehaves.

All three are msgspec structs that refuse unknown fields, so a typo in a test or in a control call is an error.
"""

from __future__ import annotations

from typing import Any, Literal, TypeVar

import msgspec

Personality = Literal["vllm", "sglang", "trtllm"]

Change = TypeVar("Change", bound=msgspec.Struct)


class Timing(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Continuous batching in five numbers. A speed of 0 means: takes no time."""

    prefill_tokens_per_s: float = 0.0
    decode_tokens_per_s: float = 0.0
    """Of one sequence alone; each further running sequence adds `batch_penalty_ms` to a step."""
    batch_penalty_ms: float = 0.0
    ttft_floor_ms: float = 0.0
    """No first token earlier than this after arrival."""
    jitter_ratio: float = 0.0
    """Each step lasts between (1 - ratio) and (1 + ratio) of its time; drawn from the engine's own seeded dice."""


H100 = Timing(
    prefill_tokens_per_s=8000.0,
    decode_tokens_per_s=160.0,
    batch_penalty_ms=0.35,
    ttft_floor_ms=15.0,
)
"""Roughly an 8B model on one H100."""


class Limits(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    max_num_seqs: int = 256
    max_queued: int = 0
    """Requests that may wait; above it 503. 0: no limit, as in real engines without the flag."""
    max_model_len: int = 32768
    num_blocks: int = 32768
    block_tokens: int = 16
    max_loras: int = 1
    """Distinct adapters in one batch; requests for a further one are held back, without an error."""


class Faults(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """How inference requests go wrong. All are off at first; `times` limits how many requests are hit."""

    latency_ms: float = 0.0
    """Added before the first byte of the answer."""
    error_rate: float = 0.0
    """Share of requests that get `error_status` instead of an answer, 0..1."""
    error_status: int = 500
    retry_after: str | None = None
    """Value of the Retry-After header on such an error, sent as it is."""
    hang: bool = False
    """Accept and never answer."""
    hang_after_events: int | None = None
    """Streams only: fall silent after that many SSE events, connection open."""
    die_after_events: int | None = None
    """Streams only: reset the connection after that many SSE events (0: after the head)."""
    eof_after_events: int | None = None
    """Streams only: close politely after that many SSE events, without the rest and without a final chunk."""
    error_event_after_events: int | None = None
    """Streams only: an error event after that many SSE events, then [DONE]; the status stays 200."""
    garbage: Literal["", "html", "bytes", "truncated_json"] = ""
    """Answer 200 with a body that is no answer."""
    usage: Literal["right", "absent", "zero", "twice"] = "right"
    """What the usage block does; `twice` sends a smaller one first (streams only)."""
    finish_reason_absent: bool = False
    flip_rate: float = 0.0
    """Share of produced tokens that are replaced by another: silent data corruption."""
    unhealthy: bool = False
    """/health answers 503, everything else works."""
    metrics_absent: tuple[str, ...] = ()
    """Metric families left out of /metrics."""
    times: int | None = None
    """Requests still to be hit by the faults that replace or cut an answer; None: all."""

    @property
    def breaks_answers(self) -> bool:
        """Whether an accepted request gets anything but its right answer."""
        cuts = (
            self.hang_after_events,
            self.die_after_events,
            self.eof_after_events,
            self.error_event_after_events,
        )
        spoiled = self.garbage or self.usage != "right" or self.finish_reason_absent
        return bool(self.hang or spoiled) or any(cut is not None for cut in cuts)


class EngineOptions(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """What one fake engine is. Fixed at start."""

    personality: Personality = "vllm"
    version: str = ""
    """Engine version; empty: the newest the personality knows."""
    name: str = "engine-0"
    models: tuple[str, ...] = ("fake-model",)
    """Served names; the first is the base model."""
    seed: int = 0
    timing: Timing = Timing()
    limits: Limits = Limits()
    answer_tokens: tuple[int, int] = (8, 32)
    """Answers end by themselves after a number of tokens in this range, fixed by the prompt."""
    prompt_tokens_details: bool = True
    """Report cached tokens in usage, as the engines do only when started with that flag."""
    runtime_lora: bool = True
    """The LoRA routes exist, as with VLLM_ALLOW_RUNTIME_LORA_UPDATING."""
    request_id_headers: bool = False
    """Echo X-Request-Id, as vLLM's --enable-request-id-headers."""
    tool_parser: bool = True
    """Tool calls are possible, as with --enable-auto-tool-choice and --tool-call-parser."""
    embeddings: bool = True
    """Serve /v1/embeddings too; a real engine serves either kind of model."""
    kv_events: bool = False
    """Publish KV events over ZMQ (vLLM and SGLang)."""
    log_bodies: bool = False
    """Write whole request bodies to the truth log."""


def changed(value: Change, fields: dict[str, Any]) -> Change:
    """`value` with some fields replaced, checked like a fresh one.

    Raises:
        msgspec.ValidationError: An unknown field or a value of the wrong type.
    """
    merged = {**msgspec.to_builtins(value), **fields}
    return msgspec.convert(merged, type(value))
