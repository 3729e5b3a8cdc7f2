"""What was used and what it cost, for those who may see it: all of it read from telemetry's ledger."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Literal
from zoneinfo import ZoneInfo

from django.db.models import QuerySet

from console.accounts.permissions import visible_tenants
from console.actor import Actor
from console.errors import Missing
from console.keys.models import ApiKey
from console.tenants.models import Tenant
from telemetry import selectors as telemetry
from telemetry.models import LedgerEntry, RequestRecord

Group = Literal["tenant", "key", "model"]
UNPRICED: Final = "price_unknown"
"""Code of the gateway's refusal where no pool of a model has a price."""
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


@dataclass(frozen=True, slots=True)
class Only:
    """What a page is narrowed to; empty: all that the person may see."""

    tenant: str = ""
    key: str = ""
    model: str = ""

    @property
    def chosen(self) -> dict[str, str]:
        names = ("tenant", "key", "model")
        return {name: getattr(self, name) for name in names if getattr(self, name)}


def usage_in(
    actor: Actor,
    begin: datetime,
    end: datetime,
    group_by: tuple[telemetry.GroupBy, ...],
    only: Only,
    zone: ZoneInfo | None = None,
) -> telemetry.Usage:
    """Sums of what `actor` may see, narrowed to `only`. Raises PermissionDenied."""
    return telemetry.usage(begin, end, group_by, _filter(actor, only), zone)


def _filter(actor: Actor, only: Only) -> telemetry.UsageFilter:
    ids = visible_tenants(actor, "usage.read")
    wanted = {only.tenant} if only.tenant else None
    if ids is not None:
        wanted = set(ids) if wanted is None else wanted & ids
    return telemetry.UsageFilter(
        tenant_ids=None if wanted is None else sorted(wanted),
        key_ids=(only.key,) if only.key else None,
        models=(only.model,) if only.model else None,
    )


def ledger_rows(actor: Actor, begin: datetime, end: datetime, only: Only) -> QuerySet[LedgerEntry]:
    """Newest first: the rows that the sums of the same period are made of."""
    chosen = _filter(actor, only)
    rows = LedgerEntry.objects.filter(occurred_at__gte=begin, occurred_at__lt=end)
    if chosen.tenant_ids is not None:
        rows = rows.filter(tenant_id__in=chosen.tenant_ids)
    if chosen.key_ids is not None:
        rows = rows.filter(key_id__in=chosen.key_ids)
    if chosen.models is not None:
        rows = rows.filter(model__in=chosen.models)
    return rows.order_by("-occurred_at", "-id")


def names_in_ledger(rows: QuerySet[LedgerEntry]) -> tuple[dict[str, str], dict[str, str]]:
    """Names of the tenants and keys in these rows."""
    plain = rows.order_by()
    tenants = set(plain.values_list("tenant_id", flat=True).distinct())
    keys = set(plain.values_list("key_id", flat=True).distinct())
    return names_of(tenants, "tenant"), names_of(keys, "key")


def refused_unpriced(actor: Actor, begin: datetime, end: datetime) -> int:
    """Requests turned away because no pool had a price, as far as records are kept."""
    ids = visible_tenants(actor, "usage.read")
    found = RequestRecord.objects.filter(
        finished_at__gte=begin, finished_at__lt=end, code=UNPRICED, outcome="refused"
    )
    return (found if ids is None else found.filter(tenant_id__in=sorted(ids))).count()


def names_of(ids: set[str], group_by: Group) -> dict[str, str]:
    """Names for ids of tenants or keys, in one query; a model is its own name."""
    if group_by == "model":
        return {name: name for name in ids}
    model: Any = Tenant if group_by == "tenant" else ApiKey
    return dict(model.objects.filter(pk__in=ids).values_list("pk", "name"))


def name_seen(actor: Actor, identifier: str, kind: Group) -> str:
    """The name behind a filter, or the text itself: what is not the actor's to see has no name for them."""
    ids = visible_tenants(actor, "usage.read")
    if kind == "model":
        return identifier
    model: Any = Tenant if kind == "tenant" else ApiKey
    rows = model.objects.filter(pk=identifier)
    if ids is not None:
        rows = rows.filter(**{"pk__in" if kind == "tenant" else "tenant_id__in": sorted(ids)})
    return rows.values_list("name", flat=True).first() or identifier


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
