"""How long what is not the ledger is kept, and whether the sums still are the sums of the ledger."""

from __future__ import annotations

import datetime as dt
from typing import Any, Final, NamedTuple

from django.db import connection, transaction

from telemetry import ledger
from telemetry.events import Finding
from telemetry.ledger import ADDITIVE, ROLLUP_SUMS
from telemetry.models import DeadLetter, FindingRecord, GpuSampleRollup, RequestRecord
from telemetry.rows import to_ms

BATCH: Final = 5000
"""Rows deleted at once: short transactions, so that ingest never waits for a clean-up."""

RECORDS_DAYS: Final = 30
GPU_DAYS: Final = 30
FINDINGS_DAYS: Final = 90
DEAD_LETTERS_DAYS: Final = 365
VERIFY_DAYS: Final = 35

_KEPT: Final[tuple[tuple[Any, str, int], ...]] = (
    (RequestRecord, "finished_at", RECORDS_DAYS),
    (GpuSampleRollup, "minute", GPU_DAYS),
    (FindingRecord, "last_at", FINDINGS_DAYS),
    (DeadLetter, "at", DEAD_LETTERS_DAYS),
)


def delete_expired(now: dt.datetime, batch: int = BATCH) -> int:
    """Everything older than it is kept, in batches; how many rows went."""
    return sum(
        _delete_older(model, field, now - dt.timedelta(days=days), batch)
        for model, field, days in _KEPT
    )


def _delete_older(model: Any, field: str, before: dt.datetime, batch: int) -> int:
    gone = 0
    while True:
        old = model.objects.filter(**{f"{field}__lt": before}).order_by(field)
        ids = list(old.values_list("pk", flat=True)[:batch])
        if not ids:
            return gone
        gone += model.objects.filter(pk__in=ids).delete()[0]


class Drift(NamedTuple):
    """A quarter of an hour whose sums are not those of the ledger."""

    bucket_start: dt.datetime
    tenant_id: str
    key_id: str
    model: str
    pool_id: str


# One statement, so that both sides are of one moment while ingest goes on writing.
_DRIFT_SQL: Final = f"""
WITH truth AS (
  SELECT bucket_start, tenant_id, key_id, model, pool_id, {ROLLUP_SUMS}
  FROM telemetry_ledgerentry WHERE bucket_start >= %s GROUP BY 1, 2, 3, 4, 5
), sums AS (
  SELECT bucket_start, tenant_id, key_id, model, pool_id, {", ".join(ADDITIVE)}
  FROM telemetry_usagerollup WHERE bucket_start >= %s
), differs AS (
  (SELECT * FROM truth EXCEPT SELECT * FROM sums)
  UNION (SELECT * FROM sums EXCEPT SELECT * FROM truth)
)
SELECT DISTINCT bucket_start, tenant_id, key_id, model, pool_id FROM differs ORDER BY 1 LIMIT 100
"""  # noqa: S608 - built from constants of this package


def find_drift(since: dt.datetime) -> list[Drift]:
    with connection.cursor() as cursor:
        cursor.execute(_DRIFT_SQL, [since, since])
        return [Drift(*row) for row in cursor.fetchall()]


def verify(now: dt.datetime) -> list[Drift]:
    """Compare the last weeks and report what differs. The ledger is right, whatever the sums say."""
    drift = find_drift(now - dt.timedelta(days=VERIFY_DAYS))
    findings = [
        Finding(
            "ledger",
            "rollup_drift",
            "critical",
            f"{item.bucket_start:%Y-%m-%dT%H:%M}Z/{item.tenant_id}",
            f"Sums of {item.bucket_start:%Y-%m-%d %H:%M} UTC for tenant {item.tenant_id}, "
            f"model {item.model} are not those of the ledger.",
            to_ms(now),
        )
        for item in drift
    ]
    with transaction.atomic():
        ledger.write_findings(findings)
    return drift
