from __future__ import annotations

import datetime as dt
import random
from typing import Any

import pytest
from django.db import InternalError, ProgrammingError, connection, transaction
from django.db.models import Sum
from django.db.utils import DatabaseError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase

from telemetry import events
from telemetry.events import Attempt, Decisions, Elimination
from telemetry.ledger import ADDITIVE
from telemetry.models import (
    DeadLetter,
    FindingRecord,
    IngestWatermark,
    LedgerEntry,
    RequestRecord,
    UsageRollup,
)
from telemetry.reader import Batch, decode_batch
from telemetry.rows import to_ms
from telemetry.store import Store
from tests.telemetry.factories import NOON, NOON_MS, batch, delivery, finished, opened, refused

pytestmark = pytest.mark.django_db


def rollup_sums() -> dict[str, Any]:
    return UsageRollup.objects.aggregate(**{name: Sum(name, default=0) for name in ADDITIVE})


def ledger_sums() -> dict[str, Any]:
    units = ("input_tokens", "cached_input_tokens", "output_tokens", "billed_microusd")
    entries = LedgerEntry.objects.all()
    return {
        "requests": entries.count(),
        "failed_requests": entries.exclude(outcome="ok").count(),
        "estimated_requests": entries.filter(usage_source="estimated").count(),
        **entries.aggregate(**{name: Sum(name, default=0) for name in units}),
    }


def test_a_finished_request_becomes_one_row_with_its_quarter_of_an_hour() -> None:
    late = NOON_MS + 29 * 60_000 + 59_999
    Store().write(batch(delivery(finished(finished_at_ms=late), 9)), NOON)
    entry = LedgerEntry.objects.get()
    assert (entry.billed_microusd, entry.output_tokens, entry.price_id) == (230, 50, "price_a")
    assert entry.bucket_start == NOON + dt.timedelta(minutes=15)
    assert to_ms(entry.occurred_at) == late
    assert (entry.spool_id, entry.spool_seq) == ("host-0", 9)


def test_a_redelivery_changes_neither_ledger_nor_sums() -> None:
    store = Store()
    first = store.write(batch(delivery(finished(), 1), delivery(finished(), 2)), NOON)
    again = store.write(batch(delivery(finished(), 1)), NOON)
    other = Store().write(batch(delivery(finished(), 1)), NOON)
    assert [len(stored.seen) for stored in (first, again, other)] == [1, 0, 0]
    assert rollup_sums() == ledger_sums()
    assert ledger_sums()["requests"] == 1


def test_an_attempt_more_is_a_row_more() -> None:
    Store().write(batch(delivery(finished(attempt=1), 1), delivery(finished(attempt=2), 2)), NOON)
    assert ledger_sums()["requests"] == 2


def test_a_refusal_costs_nothing_and_can_be_explained() -> None:
    Store().write(batch(delivery(refused())), NOON)
    record = RequestRecord.objects.get()
    assert (record.outcome, record.code, record.status) == ("refused", "budget_exhausted", 429)
    assert not LedgerEntry.objects.exists()
    assert not UsageRollup.objects.exists()


def test_decisions_are_kept_by_name() -> None:
    decisions = Decisions(
        candidates=("ep_a", "ep_b"),
        eliminated=(Elimination("ep_b", "geo_residency", "region_not_allowed"),),
        attempts=(Attempt("ep_a", 200, "", 1200),),
        stages=(("geo_residency", "enforce", "next"),),
        stripped_fields=("priority\0",),
    )
    Store().write(batch(delivery(finished(decisions=decisions))), NOON)
    assert RequestRecord.objects.get().decisions == {
        "candidates": ["ep_a", "ep_b"],
        "eliminated": [
            {"endpoint_id": "ep_b", "skill": "geo_residency", "reason": "region_not_allowed"}
        ],
        "attempts": [{"endpoint_id": "ep_a", "status": 200, "error": "", "took_us": 1200}],
        "stages": [{"skill": "geo_residency", "mode": "enforce", "verdict": "next"}],
        "stripped_fields": ["priority"],
    }


def test_openings_and_checkpoints_only_move_the_watermark() -> None:
    items: tuple[events.Event, ...] = (opened(), events.RequestProgressed("req_1", 12))
    stored = Store().write(batch(*(delivery(e, n) for n, e in enumerate(items, 1))), NOON)
    assert stored.marks == {"host-0": 2}
    assert not RequestRecord.objects.exists()


def test_the_watermark_waits_for_a_hole_and_outlives_the_process() -> None:
    stored = Store().write(batch(delivery(opened(), 1), delivery(opened(), 3)), NOON)
    assert stored.marks == {"host-0": 1}
    stored = Store().write(batch(delivery(opened(), 2)), NOON)
    assert stored.marks == {"host-0": 3}
    assert IngestWatermark.objects.get().ranges == []


def test_a_hole_that_can_never_be_filled_is_reported_and_passed() -> None:
    stored = Store().write(batch(delivery(opened(), 50, base=40)), NOON)
    assert stored.marks == {"host-0": 39}
    finding = FindingRecord.objects.get()
    assert (finding.code, finding.severity) == ("spool_gap", "critical")
    assert "39 events" in finding.message


def test_a_wrong_bill_is_stored_as_sent_and_raises_the_alarm() -> None:
    Store().write(batch(delivery(finished(billed_microusd=231))), NOON)
    assert LedgerEntry.objects.get().billed_microusd == 231
    finding = FindingRecord.objects.get()
    assert (finding.code, finding.severity, finding.subject) == (
        "price_mismatch",
        "critical",
        "req_1",
    )


def test_a_bill_cut_at_what_was_reserved_raises_its_own_alarm() -> None:
    Store().write(batch(delivery(finished(input_tokens=10**6, billed_microusd=900))), NOON)
    assert LedgerEntry.objects.get().billed_microusd == 900
    finding = FindingRecord.objects.get()
    assert (finding.code, finding.subject) == ("usage_beyond_hold", "req_1")
    assert "a hard budget is never overdrawn" in finding.message


def test_an_entry_nobody_can_read_is_kept_aside_and_blocks_nothing() -> None:
    good = {b"s": b"host-0", b"q": b"2", b"e": events.encode(finished())}
    too_much = finished("d", output_tokens=2**63, billed_microusd=1)
    poison = [
        {b"s": b"host-0", b"q": b"1", b"e": b"\xff\xffrubbish"},
        {b"s": b"host-0", b"q": b"three", b"e": b""},
        {b"nothing": b""},
        {b"s": b"host-0", b"q": b"3", b"e": events.encode(finished("a", output_tokens=-5))},
        {b"s": b"host-0", b"q": b"4", b"e": events.encode(finished("b", model="m" * 500))},
        {b"s": b"host-0", b"q": b"5", b"e": events.encode(finished("c\0", model="m"))},
        {b"s": b"host-0", b"q": b"6", b"e": events.encode(too_much)},
    ]
    entries = [(f"{NOON_MS}-{n}".encode(), fields) for n, fields in enumerate([*poison, good])]
    stored = Store().write(decode_batch(entries), NOON)
    assert stored.marks == {"host-0": 6}
    assert LedgerEntry.objects.count() == 1
    assert sorted(DeadLetter.objects.values_list("reason", flat=True)) == [
        "entry_malformed",
        "entry_malformed",
        "event_unreadable",
        "model_too_long",
        "output_tokens_out_of_range",
        "output_tokens_out_of_range",
        "request_id_has_nul",
    ]
    assert bytes(DeadLetter.objects.get(origin="host-0:1").payload) == b"\xff\xffrubbish"
    assert FindingRecord.objects.get(code="dead_letter", subject="host-0").count == 5


def test_what_the_database_refuses_is_separated_from_its_neighbours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("telemetry.rows._SMALLINT", 2**40)
    bad = delivery(finished("bad", status=2**20), 3)
    items = [delivery(finished(f"good_{n}"), n) for n in (1, 2, 4, 5)]
    stored = Store().write(batch(*items, bad), NOON)
    assert stored.marks == {"host-0": 5}
    assert LedgerEntry.objects.count() == 4
    letter = DeadLetter.objects.get()
    assert (letter.origin, letter.reason) == ("host-0:3", "refused_by_database")


def test_a_deleted_entry_that_was_still_pending_is_only_acknowledged() -> None:
    assert decode_batch([(b"1-1", None)]) == Batch([], [], [b"1-1"])


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE telemetry_ledgerentry SET billed_microusd = 0",
        "DELETE FROM telemetry_ledgerentry",
        "TRUNCATE telemetry_ledgerentry",
        "UPDATE telemetry_ledgerentry SET status = 1 WHERE false",
    ],
)
def test_the_database_refuses_to_change_the_ledger(change: str) -> None:
    Store().write(batch(delivery(finished())), NOON)
    with (
        pytest.raises((InternalError, ProgrammingError, DatabaseError), match="append-only"),
        transaction.atomic(),
        connection.cursor() as cursor,
    ):
        cursor.execute(change)
    assert LedgerEntry.objects.get().billed_microusd == 230


names = st.sampled_from(["ten_a", "ten_b"])
outcomes = st.sampled_from(["ok", "client_gone", "timeout"])
sources = st.sampled_from(["engine", "counted", "estimated", "none"])
requests = st.lists(
    st.builds(
        finished,
        request_id=st.integers(0, 12).map("req_{}".format),
        tenant_id=names,
        attempt=st.integers(1, 2),
        finished_at_ms=st.integers(NOON_MS, NOON_MS + 7_200_000),
        input_tokens=st.integers(40, 4000),
        output_tokens=st.integers(0, 4000),
        outcome=outcomes,
        usage_source=sources,
    ),
    min_size=1,
    max_size=25,
)


class RedeliveryProperties(TestCase):
    """Hypothesis rolls the database back after each example."""

    @settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(requests, st.randoms(), st.integers(1, 9))
    def test_duplicates_and_disorder_change_nothing(
        self, made: list[events.RequestFinished], dice: random.Random, step: int
    ) -> None:
        once = {(e.tenant_id, e.request_id, e.attempt): e for e in reversed(made)}
        sent = [delivery(event, n) for n, event in enumerate(once.values(), 1)]
        mixed = [*sent, *dice.sample(sent, len(sent) // 2)]
        dice.shuffle(mixed)
        store, seen = Store(), 0
        for start in range(0, len(mixed), step):
            if dice.random() < 0.3:
                store = Store()  # the process died and another took over
            seen += len(store.write(batch(*mixed[start : start + step]), NOON).seen)
        assert seen == len(once)
        assert rollup_sums() == ledger_sums()
        assert ledger_sums()["billed_microusd"] == sum(e.billed_microusd for e in once.values())
        assert IngestWatermark.objects.get().sequence == len(sent)
