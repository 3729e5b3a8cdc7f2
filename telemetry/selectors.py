"""What others may ask of usage: sums, one request, the newest requests. All integers, all with an age.

Sums come from the quarters of an hour; where a period begins or ends inside one, the ledger itself is
read for the rest, so that every sum equals the sum of the ledger rows in the period, to the micro-dollar.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal
from zoneinfo import ZoneInfo

from django.db import connection
from django.db.models import Max

from telemetry.events import USAGE_STREAM
from telemetry.ledger import ADDITIVE
from telemetry.models import FindingRecord, LedgerEntry, RequestRecord, StreamPosition
from telemetry.rows import BUCKET_S

GroupBy = Literal["tenant", "key", "model", "pool", "day", "hour", "bucket"]
TIME_GROUPS: Final = ("day", "hour", "bucket")
_COLUMNS: Final[dict[str, str]] = {
    "tenant": "tenant_id",
    "key": "key_id",
    "model": "model",
    "pool": "pool_id",
    "bucket": "bucket_start",
}
_BUCKET: Final = dt.timedelta(seconds=BUCKET_S)
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@dataclass(frozen=True, slots=True)
class Counters:
    requests: int = 0
    failed_requests: int = 0
    estimated_requests: int = 0
    input_tokens: int = 0
    cached_input_tokens: int = 0
    output_tokens: int = 0
    billed_microusd: int = 0

    def __add__(self, other: Counters) -> Counters:
        return Counters(*(getattr(self, name) + getattr(other, name) for name in ADDITIVE))


@dataclass(frozen=True, slots=True)
class UsageRow:
    group: dict[str, Any]
    """One entry for each `group_by`: an id, a model's name, a date (day), or a moment (hour, bucket)."""
    counters: Counters


@dataclass(frozen=True, slots=True)
class Usage:
    rows: list[UsageRow]
    total: Counters
    as_of: dt.datetime | None
    """Every event that reached the stream before it is counted; None: nothing was ever read."""


@dataclass(frozen=True, slots=True)
class UsageFilter:
    """None: all. An empty tuple: none at all, as for a developer without a tenant."""

    tenant_ids: Sequence[str] | None = None
    key_ids: Sequence[str] | None = None
    models: Sequence[str] | None = None
    pool_ids: Sequence[str] | None = None


_FILTERS: Final = {
    "tenant_ids": "tenant_id",
    "key_ids": "key_id",
    "models": "model",
    "pool_ids": "pool_id",
}


def usage(
    begin: dt.datetime,
    end: dt.datetime,
    group_by: Sequence[GroupBy] = (),
    only: UsageFilter = UsageFilter(),
    zone: ZoneInfo | None = None,
) -> Usage:
    """Usage that ended in [begin, end), both aware. Days and hours are those of `zone` (None: UTC).

    Rows come by time, then by money. Without `group_by` there is one row.
    """
    if begin.tzinfo is None or end.tzinfo is None:
        raise ValueError("A period needs time zones.")
    keys = ", ".join(_key_sql(name) for name in group_by)
    sums = ", ".join(f"coalesce(sum({name}), 0)::bigint AS {name}" for name in ADDITIVE)
    source, values = _source(begin, end, only)
    zones = [(zone or ZoneInfo("UTC")).key for name in group_by if name in ("day", "hour")]
    head, tail = (f"{keys}, ", _order(group_by)) if group_by else ("", "")
    query = f"SELECT {head}{sums} FROM ({source}) AS usage {tail}"  # noqa: S608 - constants, values apart
    with connection.cursor() as cursor:
        cursor.execute(query, [*zones, *values])
        found = cursor.fetchall()
    rows = [_row(group_by, row) for row in found]
    total = sum((row.counters for row in rows), Counters())
    return Usage(rows, total, as_of())


def billed_since(
    begin: dt.datetime, *, tenant_id: str | None = None, key_id: str | None = None
) -> int:
    """Micro-dollars billed to one tenant or key since `begin`."""
    only = UsageFilter(
        tenant_ids=None if tenant_id is None else (tenant_id,),
        key_ids=None if key_id is None else (key_id,),
    )
    end = dt.datetime(2100, 1, 1, tzinfo=dt.UTC)
    return usage(begin, end, only=only).total.billed_microusd


def as_of() -> dt.datetime | None:
    row = StreamPosition.objects.filter(stream=USAGE_STREAM).first()
    return row.as_of if row is not None else None


def _key_sql(name: GroupBy) -> str:
    if name == "day":
        return "(moment AT TIME ZONE %s)::date AS day"
    if name == "hour":
        return "date_trunc('hour', moment, %s) AS hour"
    return f"{_COLUMNS[name]} AS {name}"


def _order(group_by: Sequence[GroupBy]) -> str:
    places = ", ".join(str(place + 1) for place in range(len(group_by)))
    times = [str(place + 1) for place, name in enumerate(group_by) if name in TIME_GROUPS]
    return f"GROUP BY {places} ORDER BY {', '.join([*times, 'billed_microusd DESC', places])}"


_ROLLUP: Final = f"""SELECT bucket_start AS moment, bucket_start, tenant_id, key_id, model, pool_id,
{", ".join(ADDITIVE)} FROM telemetry_usagerollup"""  # noqa: S608 - constants
_LEDGER: Final = """SELECT occurred_at AS moment, bucket_start, tenant_id, key_id, model, pool_id,
1 AS requests, (outcome <> 'ok')::int AS failed_requests,
(usage_source = 'estimated')::int AS estimated_requests,
input_tokens, cached_input_tokens, output_tokens, billed_microusd FROM telemetry_ledgerentry"""


def _source(begin: dt.datetime, end: dt.datetime, only: UsageFilter) -> tuple[str, list[Any]]:
    """Whole quarters from the sums, the ragged ends from the ledger."""
    first, last = _ceil(begin), _floor(end)
    if first >= last:
        parts = [(_LEDGER, "occurred_at", begin, end)]
    else:
        parts = [(_ROLLUP, "bucket_start", first, last)]
        parts += [(_LEDGER, "occurred_at", begin, first)] if begin < first else []
        parts += [(_LEDGER, "occurred_at", last, end)] if last < end else []
    where, values = _conditions(only)
    texts, bound = [], []
    for select, column, low, high in parts:
        texts.append(f"{select} WHERE {column} >= %s AND {column} < %s{where}")
        bound += [low, high, *values]
    return " UNION ALL ".join(texts), bound


def _conditions(only: UsageFilter) -> tuple[str, list[Any]]:
    text, values = "", []
    for name, column in _FILTERS.items():
        wanted = getattr(only, name)
        if wanted is not None:
            text += f" AND {column} = ANY(%s)"
            values.append(list(wanted))
    return text, values


def _floor(moment: dt.datetime) -> dt.datetime:
    return moment - (moment - _EPOCH) % _BUCKET


def _ceil(moment: dt.datetime) -> dt.datetime:
    return moment + (_EPOCH - moment) % _BUCKET


def _row(group_by: Sequence[GroupBy], row: tuple[Any, ...]) -> UsageRow:
    width = len(group_by)
    group = dict(zip(group_by, row[:width], strict=True))
    return UsageRow(group, Counters(*(int(value) for value in row[width:])))


@dataclass(frozen=True, slots=True)
class RequestDetail:
    """A request's attempts: what was decided, and what each cost. Either may be gone or not there yet."""

    request_id: str
    records: list[RequestRecord]
    entries: list[LedgerEntry]

    @property
    def billed_microusd(self) -> int:
        return sum(entry.billed_microusd for entry in self.entries)


def request_detail(
    request_id: str, tenant_ids: Sequence[str] | None = None
) -> RequestDetail | None:
    """None: nobody of these tenants (None: of all) made such a request."""
    records = RequestRecord.objects.filter(request_id=request_id).order_by("attempt")
    entries = LedgerEntry.objects.filter(request_id=request_id).order_by("attempt", "id")
    if tenant_ids is not None:
        records = records.filter(tenant_id__in=tenant_ids)
        entries = entries.filter(tenant_id__in=tenant_ids)
    detail = RequestDetail(request_id, list(records), list(entries))
    return detail if detail.records or detail.entries else None


def recent_requests(
    limit: int = 50,
    tenant_ids: Sequence[str] | None = None,
    before: dt.datetime | None = None,
) -> list[RequestRecord]:
    """Newest first; `before` pages on."""
    found = RequestRecord.objects.order_by("-finished_at", "-id")
    if tenant_ids is not None:
        found = found.filter(tenant_id__in=tenant_ids)
    if before is not None:
        found = found.filter(finished_at__lt=before)
    return list(found[:limit])


def key_last_used(key_ids: Sequence[str]) -> dict[str, dt.datetime]:
    """When each key last had a request served or refused, as far as records are kept."""
    rows = RequestRecord.objects.filter(key_id__in=key_ids).values("key_id")
    return {row["key_id"]: row["at"] for row in rows.annotate(at=Max("finished_at"))}


def recent_findings(since: dt.datetime, limit: int = 10) -> list[FindingRecord]:
    """What observers, agents and ingest itself wanted a person to see, newest first."""
    return list(FindingRecord.objects.filter(last_at__gte=since).order_by("-last_at")[:limit])
