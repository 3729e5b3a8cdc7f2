"""What happened, as the data plane records it and the ledger reads it. No Django, no I/O.

Events are msgpack arrays with an integer tag, so one costs 0.2 µs to write and old readers fail
loudly, not wrongly. A request leaves `RequestOpened` before the engine hears of it,
`RequestProgressed` while it streams and exactly one `RequestFinished`; a worker that finds an open
request without an end after a crash writes the end itself.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

USAGE_STREAM: Final = "ace:usage"
"""Redis stream. Fields: `s` spool id, `q` decimal sequence in that spool, `e` one encoded event.

Optional `b`: the lowest sequence the spool still holds. What lies below cannot come any more, so a
gap there (a ledger restored from an old backup) is reported and no longer waited for.
"""

USAGE_GROUP: Final = "ingest"

WATERMARK_KEY: Final = "ace:usage:watermark"
"""Hash: spool id -> sequence up to and including which everything is in the ledger.

A spool keeps what lies above it, and ships that again when the mark stands still.
"""

SAMPLE_STREAM: Final = "ace:samples"
"""Redis stream, capped. Field `e`: one encoded `telemetry.nvml` sample batch."""

FINDING_STREAM: Final = "ace:findings"
"""Redis stream, capped. Field `e`: JSON of one `Finding`, from observer skills and the agents."""

UsageSource = Literal["engine", "counted", "estimated", "none"]
"""engine: reported. counted: events seen before a cut. estimated: a bound, flagged as such.
none: nothing was produced."""

Outcome = Literal[
    "ok",
    "client_gone",
    "upstream_error",
    "upstream_refused",
    "timeout",
    "interrupted",
    "budget_cut",
]


class Elimination(msgspec.Struct, array_like=True, frozen=True):
    """Why one endpoint was not taken: skill slug and stable reason code."""

    endpoint_id: str
    skill: str
    reason: str


class Attempt(msgspec.Struct, array_like=True, frozen=True):
    endpoint_id: str
    status: int
    """HTTP status of the engine, 0 when none came."""
    error: str
    took_us: int


class Decisions(msgspec.Struct, array_like=True, frozen=True):
    """What the explainer shows: who could have served, who was left out and why, what was tried."""

    candidates: tuple[str, ...] = ()
    eliminated: tuple[Elimination, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    stages: tuple[tuple[str, str, str], ...] = ()
    """(skill slug, mode, verdict or reason code) of each enabled stage, in pipeline order."""
    stripped_fields: tuple[str, ...] = ()


class RequestOpened(msgspec.Struct, array_like=True, tag=1, frozen=True):
    """Written before dispatch. Enough to bill the request if nothing else of it survives."""

    request_id: str
    tenant_id: str
    key_id: str
    model: str
    pool_id: str
    endpoint_id: str
    opened_at_ms: int
    input_tokens_bound: int
    hold_microusd: int
    price_id: str
    input_microusd_per_mtok: int
    output_microusd_per_mtok: int
    snapshot_version: int
    stream: bool
    budget_ids: tuple[str, ...] = ()
    """Budgets that carry the hold, so that recovery can settle each of them."""


class RequestProgressed(msgspec.Struct, array_like=True, tag=2, frozen=True):
    """Checkpoint of a stream: output tokens seen so far."""

    request_id: str
    output_tokens: int


class RequestFinished(msgspec.Struct, array_like=True, tag=3, frozen=True):
    """The one end of a dispatched request; becomes one ledger row.

    Unique by tenant, request, attempt and kind.
    """

    request_id: str
    attempt: int
    kind: Literal["usage"]
    tenant_id: str
    key_id: str
    model: str
    pool_id: str
    endpoint_id: str
    engine: str
    region: str
    """Empty: unknown."""
    opened_at_ms: int
    finished_at_ms: int
    status: int
    """HTTP status the caller saw; 499 when it left first."""
    outcome: Outcome
    error_code: str
    input_tokens: int
    cached_input_tokens: int
    output_tokens: int
    usage_source: UsageSource
    hold_microusd: int
    billed_microusd: int
    price_id: str
    input_microusd_per_mtok: int
    output_microusd_per_mtok: int
    cached_input_microusd_per_mtok: int
    snapshot_version: int
    policy_revision: int
    latency_us: int
    first_token_us: int
    """0: no token came."""
    stream: bool
    decisions: Decisions


class RequestRefused(msgspec.Struct, array_like=True, tag=4, frozen=True):
    """A known key was turned away before dispatch.

    Costs nothing, is not in the ledger, can be explained.
    """

    request_id: str
    tenant_id: str
    key_id: str
    model: str
    at_ms: int
    status: int
    code: str
    message: str
    snapshot_version: int
    policy_revision: int
    decisions: Decisions


Event = RequestOpened | RequestProgressed | RequestFinished | RequestRefused

encode: Final = msgspec.msgpack.Encoder().encode
decode: Final = msgspec.msgpack.Decoder(Event).decode


class Finding(msgspec.Struct, frozen=True):
    """Something an observer wants a person to see."""

    skill: str
    code: str
    severity: Literal["info", "warning", "critical"]
    subject: str
    """What it is about: a GPU's UUID, an endpoint's id."""
    message: str
    at_ms: int
