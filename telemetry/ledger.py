"""Writes what was delivered: ledger, sums, records and watermarks in one transaction, twice is once."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from django.db import connection

from telemetry.events import Finding
from telemetry.models import CODE_LENGTH, SUBJECT_LENGTH, IngestWatermark, StreamPosition
from telemetry.rows import (
    LEDGER_COLUMNS,
    MAX_MESSAGE,
    RECORD_COLUMNS,
    Delivery,
    from_ms,
    ledger_rows,
    record_rows,
)
from telemetry.watermark import Progress

RequestKey = tuple[str, str, int]
"""Tenant, request, attempt."""

ADDITIVE: Final = (
    "requests",
    "failed_requests",
    "estimated_requests",
    "input_tokens",
    "cached_input_tokens",
    "output_tokens",
    "billed_microusd",
)
ROLLUP_SUMS: Final = """count(*), count(*) FILTER (WHERE outcome <> 'ok'),
  count(*) FILTER (WHERE usage_source = 'estimated'),
  sum(input_tokens), sum(cached_input_tokens), sum(output_tokens), sum(billed_microusd)"""


def _unnest(columns: Mapping[str, str]) -> str:
    arrays = ", ".join(f"%s::{kind}[]" for kind in columns.values())
    return f"SELECT * FROM unnest({arrays})"  # noqa: S608 - built from constants of this package


# Only rows that were really inserted reach the sums, in one statement: a redelivery counts nothing.
_LEDGER_SQL: Final = f"""
WITH fresh AS (
  INSERT INTO telemetry_ledgerentry ({", ".join(LEDGER_COLUMNS)}) {_unnest(LEDGER_COLUMNS)}
  ON CONFLICT (tenant_id, request_id, attempt, kind) DO NOTHING RETURNING *
), summed AS (
  INSERT INTO telemetry_usagerollup AS kept
    (bucket_start, tenant_id, key_id, model, pool_id, {", ".join(ADDITIVE)})
  SELECT bucket_start, tenant_id, key_id, model, pool_id, {ROLLUP_SUMS}
  FROM fresh GROUP BY 1, 2, 3, 4, 5 ORDER BY 1, 2, 3, 4, 5
  ON CONFLICT (bucket_start, tenant_id, key_id, model, pool_id) DO UPDATE
  SET {", ".join(f"{name} = kept.{name} + excluded.{name}" for name in ADDITIVE)}
)
SELECT count(*) FROM fresh
"""  # noqa: S608 - built from constants of this package
_RECORD_SQL: Final = f"""
INSERT INTO telemetry_requestrecord ({", ".join(RECORD_COLUMNS)}) {_unnest(RECORD_COLUMNS)}
ON CONFLICT (tenant_id, request_id, attempt) DO NOTHING
RETURNING tenant_id, request_id, attempt
"""


def write_requests(deliveries: Sequence[Delivery], now: dt.datetime) -> frozenset[RequestKey]:
    """The requests that were not known before. Call inside a transaction."""
    rows = list(ledger_rows(deliveries, now))
    records = list(record_rows(deliveries))
    with connection.cursor() as cursor:
        if rows:
            cursor.execute(_LEDGER_SQL, _columns(rows))
        if not records:
            return frozenset()
        cursor.execute(_RECORD_SQL, _columns(records))
        return frozenset(cursor.fetchall())


def _columns(rows: list[tuple[Any, ...]]) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)]


def read_progress(spool_ids: Iterable[str] | None = None) -> dict[str, Progress]:
    """Of these spools, or of all."""
    found = IngestWatermark.objects.all()
    if spool_ids is not None:
        found = found.filter(spool_id__in=list(spool_ids))
    return {
        row.spool_id: Progress(row.sequence, [(low, high) for low, high in row.ranges])
        for row in found
    }


def write_progress(progress: Mapping[str, Progress], now: dt.datetime) -> None:
    IngestWatermark.objects.bulk_create(
        [
            IngestWatermark(
                spool_id=spool_id, sequence=item.mark, ranges=item.ranges, updated_at=now
            )
            for spool_id, item in sorted(progress.items())
        ],
        update_conflicts=True,
        unique_fields=["spool_id"],
        update_fields=["sequence", "ranges", "updated_at"],
    )


def write_position(stream: str, last_id: str, as_of: dt.datetime) -> None:
    StreamPosition.objects.bulk_create(
        [StreamPosition(stream=stream, last_id=last_id, as_of=as_of)],
        update_conflicts=True,
        unique_fields=["stream"],
        update_fields=["last_id", "as_of"],
    )


_FINDING_TEXTS: Final = {
    "skill": CODE_LENGTH,
    "code": CODE_LENGTH,
    "subject": SUBJECT_LENGTH,
    "severity": 10,
    "message": MAX_MESSAGE,
}
_FINDING_SQL: Final = """
INSERT INTO telemetry_findingrecord AS kept
  (skill, code, subject, severity, message, count, first_at, last_at)
VALUES (%s, %s, %s, %s, %s, 1, %s, %s)
ON CONFLICT (skill, code, subject) DO UPDATE SET severity = excluded.severity,
  message = excluded.message, count = kept.count + 1,
  last_at = greatest(kept.last_at, excluded.last_at)
"""


def write_findings(findings: Iterable[Finding]) -> None:
    """A finding said again raises its count; a table of findings cannot be flooded."""
    with connection.cursor() as cursor:
        for finding in findings:
            at = from_ms(finding.at_ms)
            texts = [
                getattr(finding, name).replace("\0", "")[:length]
                for name, length in _FINDING_TEXTS.items()
            ]
            cursor.execute(_FINDING_SQL, [*texts, at, at])
