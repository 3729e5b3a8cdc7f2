"""Events as the data plane writes them, one keyword away from what a test is about."""

from __future__ import annotations

import datetime as dt
from typing import Any

from telemetry import events
from telemetry.pricing import Rates, Tokens, billed_microusd
from telemetry.reader import Batch
from telemetry.rows import Delivery, to_ms

NOON = dt.datetime(2026, 3, 10, 12, 0, tzinfo=dt.UTC)
NOON_MS = to_ms(NOON)


class FakeClock:
    """Time that stands still until a test moves it."""

    def __init__(self, unix_ms: int = NOON_MS) -> None:
        self.now_ms = unix_ms

    def unix_ms(self) -> int:
        return self.now_ms

    def monotonic_s(self) -> float:
        return self.now_ms / 1000

    def advance(self, seconds: float) -> None:
        self.now_ms += round(seconds * 1000)


def finished(request_id: str = "req_1", **changes: Any) -> events.RequestFinished:
    values: dict[str, Any] = {
        "request_id": request_id,
        "attempt": 1,
        "kind": "usage",
        "tenant_id": "ten_a",
        "key_id": "key_a",
        "model": "chat-small",
        "pool_id": "pool_a",
        "endpoint_id": "ep_a",
        "engine": "vllm",
        "region": "eu-west-1",
        "opened_at_ms": NOON_MS - 250,
        "finished_at_ms": NOON_MS,
        "status": 200,
        "outcome": "ok",
        "error_code": "",
        "input_tokens": 100,
        "cached_input_tokens": 40,
        "output_tokens": 50,
        "usage_source": "engine",
        "hold_microusd": 900,
        "price_id": "price_a",
        "input_microusd_per_mtok": 1_000_000,
        "output_microusd_per_mtok": 3_000_000,
        "cached_input_microusd_per_mtok": 500_000,
        "snapshot_version": 7,
        "policy_revision": 3,
        "latency_us": 250_000,
        "first_token_us": 80_000,
        "stream": True,
        "decisions": events.Decisions(candidates=("ep_a", "ep_b")),
    } | changes
    rates = Rates(
        values["input_microusd_per_mtok"],
        values["output_microusd_per_mtok"],
        values["cached_input_microusd_per_mtok"],
    )
    tokens = Tokens(values["input_tokens"], values["output_tokens"], values["cached_input_tokens"])
    values.setdefault("billed_microusd", billed_microusd(rates, tokens))
    return events.RequestFinished(**values)


def refused(request_id: str = "req_refused", **changes: Any) -> events.RequestRefused:
    values: dict[str, Any] = {
        "request_id": request_id,
        "tenant_id": "ten_a",
        "key_id": "key_a",
        "model": "chat-small",
        "at_ms": NOON_MS,
        "status": 429,
        "code": "budget_exhausted",
        "message": "The budget of Aurora is used up until 2026-04-01.",
        "snapshot_version": 7,
        "policy_revision": 3,
        "decisions": events.Decisions(),
    }
    return events.RequestRefused(**(values | changes))


def opened(request_id: str = "req_1") -> events.RequestOpened:
    return events.RequestOpened(
        *(request_id, "ten_a", "key_a", "chat-small", "pool_a", "ep_a", NOON_MS - 250),
        *(100, 900, "price_a", 1_000_000, 3_000_000, 7, True),
    )


def delivery(
    event: events.Event, sequence: int = 1, spool_id: str = "host-0", base: int = 0
) -> Delivery:
    return Delivery(f"{NOON_MS}-{sequence}", spool_id, sequence, base, event)


def batch(*deliveries: Delivery) -> Batch:
    return Batch(list(deliveries), [], [item.stream_id.encode() for item in deliveries])
