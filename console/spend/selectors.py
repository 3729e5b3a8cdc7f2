"""What was used and what it cost, for those who may see it: all of it read from telemetry's ledger."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any, Final, Literal

from console.accounts.permissions import visible_tenants
from console.actor import Actor
from console.errors import Missing
from console.keys.models import ApiKey
from console.tenants.models import Tenant
from telemetry import selectors as telemetry
from telemetry.models import LedgerEntry, RequestRecord

Group = Literal["tenant", "key", "model"]
_RECORD_FIELDS: Final = (
    "attempt",
    "tenant_id",
    "key_id",
    "model",
    "pool_id",
    "endpoint_id",
    "status",
    "outcome",
    "code",
    "message",
    "stream",
    "input_tokens",
    "cached_input_tokens",
    "output_tokens",
    "usage_source",
    "hold_microusd",
    "billed_microusd",
    "latency_us",
    "first_token_us",
    "snapshot_version",
    "policy_revision",
    "decisions",
)


def usage_by(actor: Actor, begin: datetime, end: datetime, group_by: Group) -> telemetry.Usage:
    """Sums of the ledger for requests that ended in [begin, end), largest first."""
    ids = visible_tenants(actor, "usage.read")
    only = telemetry.UsageFilter(tenant_ids=None if ids is None else sorted(ids))
    return telemetry.usage(begin, end, (group_by,), only)


def names_of(ids: set[str], group_by: Group) -> dict[str, str]:
    """Names for ids of tenants or keys, in one query; a model is its own name."""
    if group_by == "model":
        return {name: name for name in ids}
    model: Any = Tenant if group_by == "tenant" else ApiKey
    return dict(model.objects.filter(pk__in=ids).values_list("pk", "name"))


def usage_rows(usage: telemetry.Usage, group_by: Group) -> list[dict[str, Any]]:
    names = names_of({row.group[group_by] for row in usage.rows}, group_by)
    return [
        {
            group_by: row.group[group_by],
            "name": names.get(row.group[group_by]),
            **asdict(row.counters),
        }
        for row in usage.rows
    ]


def request_get(actor: Actor, request_id: str) -> telemetry.RequestDetail:
    """Raises Missing: a request of a tenant the actor may not see does not exist for them."""
    ids = visible_tenants(actor, "requests.read")
    detail = telemetry.request_detail(request_id, None if ids is None else sorted(ids))
    if detail is None:
        raise Missing("No such request. Its record may have been dropped, or not have arrived yet.")
    return detail


def request_state(detail: telemetry.RequestDetail) -> dict[str, Any]:
    return {
        "request_id": detail.request_id,
        "billed_microusd": detail.billed_microusd,
        "attempts": [_record(record) for record in detail.records],
        "charges": [_charge(entry) for entry in detail.entries],
    }


def default_period(now: datetime) -> tuple[datetime, datetime]:
    return now - timedelta(days=30), now


def _record(record: RequestRecord) -> dict[str, Any]:
    return {
        **{name: getattr(record, name) for name in _RECORD_FIELDS},
        "opened_at": record.opened_at.isoformat(),
        "finished_at": record.finished_at.isoformat(),
    }


def _charge(entry: LedgerEntry) -> dict[str, Any]:
    """The arithmetic: fresh input, cached input and output, each with its tokens, price and millionths of a micro."""
    parts = (
        ("input", entry.input_tokens - entry.cached_input_tokens, entry.input_microusd_per_mtok),
        ("cached_input", entry.cached_input_tokens, entry.cached_input_microusd_per_mtok),
        ("output", entry.output_tokens, entry.output_microusd_per_mtok),
    )
    return {
        "attempt": entry.attempt,
        "kind": entry.kind,
        "price_id": entry.price_id,
        "usage_source": entry.usage_source,
        "parts": [
            {"what": what, "tokens": tokens, "microusd_per_mtok": price, "product": tokens * price}
            for what, tokens, price in parts
        ],
        "billed_microusd": entry.billed_microusd,
        "rule": "sum of products / 1,000,000, rounded up once",
    }
