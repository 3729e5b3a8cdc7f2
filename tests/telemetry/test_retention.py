from __future__ import annotations

import datetime as dt

import pytest

from telemetry import events
from telemetry.models import DeadLetter, FindingRecord, LedgerEntry, RequestRecord, UsageRollup
from telemetry.retention import RECORDS_DAYS, delete_expired, find_drift, verify
from telemetry.schedule import BEAT_SCHEDULE
from telemetry.store import Store
from telemetry.tasks import retention, verify_rollups
from tests.telemetry.factories import NOON, NOON_MS, batch, delivery, finished

pytestmark = pytest.mark.django_db


def store(*made: events.Event) -> None:
    Store().write(batch(*(delivery(event, n) for n, event in enumerate(made, 1))), NOON)


def test_records_leave_after_their_time_in_batches_and_the_ledger_stays() -> None:
    store(*(finished(f"r{n}", finished_at_ms=NOON_MS + n * 1000) for n in range(7)))
    DeadLetter.objects.create(origin="a:1", reason="x", payload=b"", at=NOON)
    then = NOON + dt.timedelta(days=RECORDS_DAYS, seconds=5)
    assert delete_expired(then, batch=2) == 5
    assert sorted(r.request_id for r in RequestRecord.objects.all()) == ["r5", "r6"]
    assert LedgerEntry.objects.count() == 7
    assert DeadLetter.objects.exists()
    assert delete_expired(then, batch=2) == 0


def test_sums_that_are_right_raise_nothing() -> None:
    store(finished("a"), finished("b", outcome="timeout", usage_source="estimated"))
    assert verify(NOON) == []
    assert not FindingRecord.objects.exists()


@pytest.mark.parametrize("change", ["changed", "missing", "invented"])
def test_sums_that_drifted_are_found_and_reported(change: str) -> None:
    store(finished("a"), finished("b", tenant_id="ten_b"))
    row = UsageRollup.objects.get(tenant_id="ten_a")
    if change == "changed":
        UsageRollup.objects.filter(pk=row.pk).update(billed_microusd=row.billed_microusd + 1)
    elif change == "missing":
        row.delete()
    else:
        row.pk, row.model = None, "never-used"
        row.save()
    assert [item.tenant_id for item in find_drift(NOON)] == ["ten_a"]
    verify(NOON)
    finding = FindingRecord.objects.get()
    assert (finding.code, finding.severity) == ("rollup_drift", "critical")


def test_drift_from_before_the_period_is_not_looked_for() -> None:
    store(finished("a"))
    UsageRollup.objects.update(requests=5)
    assert find_drift(NOON + dt.timedelta(hours=1)) == []


def test_what_beat_starts_exists() -> None:
    tasks = {task.name for task in (retention, verify_rollups)}
    assert {entry["task"] for entry in BEAT_SCHEDULE.values()} == tasks
    assert retention() == 0
    assert verify_rollups() == 0
