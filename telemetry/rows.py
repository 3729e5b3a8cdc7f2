"""Events -> rows of the ledger and of the request records. Pure."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

import msgspec

from telemetry import events
from telemetry.models import (
    CODE_LENGTH,
    ID_LENGTH,
    MODEL_LENGTH,
    REQUEST_ID_LENGTH,
)
from telemetry.pricing import Rates, Tokens, billed_microusd

BUCKET_S: Final = 900
MAX_MESSAGE: Final = 2000
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_LATEST_MS: Final = 4_102_444_800_000  # 2100: no clock of ours is that wrong by accident
_BIGINT: Final = 2**63 - 1
_SMALLINT: Final = 2**15 - 1
_LIMITS: Final = {
    "request_id": REQUEST_ID_LENGTH,
    "model": MODEL_LENGTH,
    "region": 40,
    "engine": 16,
}
_CODES: Final = frozenset({"error_code", "code"})
_SMALL: Final = frozenset({"attempt", "status"})


class Delivery(NamedTuple):
    """One entry of the usage stream, read as far as it could be."""

    stream_id: str
    spool_id: str
    sequence: int
    base: int
    """Lowest sequence the spool still holds; 0: it did not say."""
    event: events.Event

    @property
    def origin(self) -> str:
        return f"{self.spool_id}:{self.sequence}"


def from_ms(unix_ms: int) -> dt.datetime:
    return _EPOCH + dt.timedelta(milliseconds=unix_ms)


def to_ms(moment: dt.datetime) -> int:
    return (moment - _EPOCH) // dt.timedelta(milliseconds=1)


def bucket_of(unix_ms: int) -> dt.datetime:
    """Start of the quarter of an hour (UTC) that holds the moment."""
    seconds = unix_ms // 1000
    return _EPOCH + dt.timedelta(seconds=seconds - seconds % BUCKET_S)


def fault(event: events.Event) -> str:
    """Why the database could not hold this event, as a stable code; empty: it can."""
    for name in event.__struct_fields__:
        value = getattr(event, name)
        if isinstance(value, str) and (reason := _text_fault(name, value)):
            return reason
        if isinstance(value, int) and not _fits(name, value):
            return f"{name}_out_of_range"
    return ""


def _fits(name: str, value: int) -> bool:
    if name.endswith("at_ms"):
        return 0 <= value <= _LATEST_MS
    return 0 <= value <= (_SMALLINT if name in _SMALL else _BIGINT)


def _text_fault(name: str, value: str) -> str:
    if "\0" in value:
        return f"{name}_has_nul"
    if name == "message":
        return ""
    limit = CODE_LENGTH if name in _CODES else _LIMITS.get(name, ID_LENGTH)
    return f"{name}_too_long" if len(value) > limit else ""


LEDGER_COLUMNS: Final = {
    "tenant_id": "text",
    "request_id": "text",
    "attempt": "smallint",
    "kind": "text",
    "key_id": "text",
    "model": "text",
    "pool_id": "text",
    "endpoint_id": "text",
    "engine": "text",
    "region": "text",
    "input_tokens": "bigint",
    "cached_input_tokens": "bigint",
    "output_tokens": "bigint",
    "billed_microusd": "bigint",
    "price_id": "text",
    "input_microusd_per_mtok": "bigint",
    "output_microusd_per_mtok": "bigint",
    "cached_input_microusd_per_mtok": "bigint",
    "usage_source": "text",
    "outcome": "text",
    "status": "smallint",
    "snapshot_version": "bigint",
    "policy_revision": "bigint",
    "bucket_start": "timestamptz",
    "occurred_at": "timestamptz",
    "spool_id": "text",
    "spool_seq": "bigint",
    "recorded_at": "timestamptz",
}
RECORD_COLUMNS: Final = {
    "tenant_id": "text",
    "request_id": "text",
    "attempt": "smallint",
    "key_id": "text",
    "model": "text",
    "pool_id": "text",
    "endpoint_id": "text",
    "opened_at": "timestamptz",
    "finished_at": "timestamptz",
    "status": "smallint",
    "outcome": "text",
    "code": "text",
    "message": "text",
    "stream": "boolean",
    "input_tokens": "bigint",
    "cached_input_tokens": "bigint",
    "output_tokens": "bigint",
    "usage_source": "text",
    "hold_microusd": "bigint",
    "billed_microusd": "bigint",
    "latency_us": "bigint",
    "first_token_us": "bigint",
    "snapshot_version": "bigint",
    "policy_revision": "bigint",
    "decisions": "jsonb",
}
_LEDGER_PLAIN: Final = tuple(LEDGER_COLUMNS)[:23]
_encode_json: Final = msgspec.json.Encoder().encode


def ledger_rows(deliveries: Iterable[Delivery], now: dt.datetime) -> Iterator[tuple[Any, ...]]:
    """One row for each finished request, in the order of LEDGER_COLUMNS."""
    for delivery in deliveries:
        event = delivery.event
        if isinstance(event, events.RequestFinished):
            moment = event.finished_at_ms
            yield (
                *(getattr(event, name) for name in _LEDGER_PLAIN),
                bucket_of(moment),
                from_ms(moment),
                delivery.spool_id,
                delivery.sequence,
                now,
            )


def record_rows(deliveries: Iterable[Delivery]) -> Iterator[tuple[Any, ...]]:
    """One row for each finished or refused request, in the order of RECORD_COLUMNS."""
    for delivery in deliveries:
        event = delivery.event
        if isinstance(event, events.RequestFinished):
            yield _finished_record(event)
        elif isinstance(event, events.RequestRefused):
            yield _refused_record(event)


def _finished_record(event: events.RequestFinished) -> tuple[Any, ...]:
    return (
        *(event.tenant_id, event.request_id, event.attempt, event.key_id, event.model),
        *(event.pool_id, event.endpoint_id),
        *(from_ms(event.opened_at_ms), from_ms(event.finished_at_ms)),
        *(event.status, event.outcome, event.error_code, "", event.stream),
        *(event.input_tokens, event.cached_input_tokens, event.output_tokens, event.usage_source),
        *(event.hold_microusd, event.billed_microusd, event.latency_us, event.first_token_us),
        *(event.snapshot_version, event.policy_revision, decisions_json(event.decisions)),
    )


def _refused_record(event: events.RequestRefused) -> tuple[Any, ...]:
    moment = from_ms(event.at_ms)
    return (
        *(event.tenant_id, event.request_id, 0, event.key_id, event.model, "", ""),
        *(moment, moment, event.status, "refused", event.code, event.message[:MAX_MESSAGE], False),
        *(0, 0, 0, "none", 0, 0, 0, 0),
        *(event.snapshot_version, event.policy_revision, decisions_json(event.decisions)),
    )


def decisions_json(decisions: events.Decisions) -> str:
    """Named fields, for later readers; without NUL, which has no place in jsonb."""
    document = {
        "candidates": decisions.candidates,
        "eliminated": [_named(item) for item in decisions.eliminated],
        "attempts": [_named(item) for item in decisions.attempts],
        "stages": [
            {"skill": skill, "mode": mode, "verdict": verdict}
            for skill, mode, verdict in decisions.stages
        ],
        "stripped_fields": decisions.stripped_fields,
    }
    text = _encode_json(document).decode()
    return _encode_json(_without_nul(document)).decode() if "\\u0000" in text else text


def _without_nul(value: object) -> object:
    if isinstance(value, str):
        return value.replace("\0", "")
    if isinstance(value, dict):
        return {name: _without_nul(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nul(item) for item in value]
    return value


def _named(item: events.Elimination | events.Attempt) -> dict[str, object]:
    return {name: getattr(item, name) for name in item.__struct_fields__}


def bill_fault(event: events.RequestFinished) -> tuple[str, str]:
    """Code and words of what is wrong with the bill; empty when nothing is."""
    rates = Rates(
        event.input_microusd_per_mtok,
        event.output_microusd_per_mtok,
        event.cached_input_microusd_per_mtok,
    )
    tokens = Tokens(event.input_tokens, event.output_tokens, event.cached_input_tokens)
    expected = billed_microusd(rates, tokens)
    if expected == event.billed_microusd:
        return "", ""
    text = (
        f"Request {event.request_id} was billed {event.billed_microusd} micro-dollars; "
        f"its tokens at price {event.price_id} make {expected}. The ledger holds what was billed."
    )
    if event.hold_microusd <= event.billed_microusd < expected:
        why = "The engine reported more than was reserved, and a hard budget is never overdrawn."
        return "usage_beyond_hold", f"{text} {why}"
    return "price_mismatch", text
