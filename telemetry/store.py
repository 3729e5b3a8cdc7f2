"""One batch of the usage stream into the database: all of it in one transaction, and twice is once."""

from __future__ import annotations

import copy
import datetime as dt
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from django.db import DataError, IntegrityError, transaction

from telemetry import ledger
from telemetry.board import Seen, seen_from_event
from telemetry.events import USAGE_STREAM, Finding, RequestFinished, RequestRefused, encode
from telemetry.models import DeadLetter
from telemetry.reader import Batch, Dead
from telemetry.rows import Delivery, bill_fault, from_ms, to_ms
from telemetry.watermark import Progress

SKILL: Final = "ledger"
"""What ingest's own findings are filed under."""


@dataclass(slots=True)
class Stored:
    """What a batch changed."""

    seen: list[Seen] = field(default_factory=list)
    """Requests that were not known before."""
    marks: dict[str, int] = field(default_factory=dict)
    """Watermark of each spool of the batch."""
    dead: int = 0


class Store:
    """Keeps the progress of each spool between batches; the database's is the one that counts."""

    def __init__(self) -> None:
        self._progress: dict[str, Progress] = {}

    def write(self, batch: Batch, now: dt.datetime) -> Stored:
        """Raises django.db.Error when the database cannot be reached; nothing is stored then."""
        try:
            return self._write(batch.deliveries, batch.dead, batch.last_ms, now)
        except (DataError, IntegrityError):
            good, poison = _separate(batch.deliveries, now)
            return self._write(good, [*batch.dead, *poison], batch.last_ms, now)

    def marks(self) -> dict[str, int]:
        """Every watermark, for a Redis that lost them."""
        self._progress = ledger.read_progress()
        return {spool_id: item.mark for spool_id, item in self._progress.items()}

    def _write(
        self, deliveries: Sequence[Delivery], dead: Sequence[Dead], last_ms: int, now: dt.datetime
    ) -> Stored:
        with transaction.atomic():
            new = ledger.write_requests(deliveries, now)
            progress, lost = self._advance(deliveries, dead)
            ledger.write_progress(progress, now)
            ledger.write_position(USAGE_STREAM, "", from_ms(last_ms))
            _write_dead(dead, now)
            ledger.write_findings([*_findings(deliveries, dead, new, now), *lost])
        self._progress |= progress
        marks = {spool_id: item.mark for spool_id, item in progress.items()}
        return Stored(list(_seen(deliveries, new)), marks, len(dead))

    def _advance(
        self, deliveries: Sequence[Delivery], dead: Sequence[Dead]
    ) -> tuple[dict[str, Progress], list[Finding]]:
        """Copies, so that a transaction that fails leaves what is remembered as it was."""
        sequences: dict[str, list[int]] = defaultdict(list)
        bases: dict[str, int] = defaultdict(int)
        for item in dead:
            if item.spool_id:
                sequences[item.spool_id].append(item.sequence)
        for delivery in deliveries:
            sequences[delivery.spool_id].append(delivery.sequence)
            bases[delivery.spool_id] = max(bases[delivery.spool_id], delivery.base)
        progress = self._remembered(sequences.keys())
        findings = []
        for spool_id, numbers in sequences.items():
            if missing := progress[spool_id].raise_base(bases[spool_id]):
                findings.append(_gap(spool_id, missing, bases[spool_id], deliveries[0]))
            progress[spool_id].add(numbers)
        return progress, findings

    def _remembered(self, spool_ids: Iterable[str]) -> dict[str, Progress]:
        wanted = list(spool_ids)
        unknown = [spool_id for spool_id in wanted if spool_id not in self._progress]
        if unknown:
            self._progress |= ledger.read_progress(unknown)
        return {
            spool_id: copy.deepcopy(self._progress.get(spool_id, Progress())) for spool_id in wanted
        }


def _seen(deliveries: Sequence[Delivery], new: frozenset[ledger.RequestKey]) -> Iterator[Seen]:
    """Of each new request the one that was stored: the first of its kind in the batch."""
    left = set(new)
    for delivery in deliveries:
        event = delivery.event
        if isinstance(event, RequestFinished | RequestRefused):
            seen = seen_from_event(event)
            key = (seen.tenant_id, seen.request_id, seen.attempt)
            if key in left:
                left.discard(key)
                yield seen


def _separate(
    deliveries: Sequence[Delivery], now: dt.datetime
) -> tuple[list[Delivery], list[Dead]]:
    """Halve until the rows the database refuses stand alone. Costs a few dry runs, once per poison."""
    if not deliveries:
        return [], []
    try:
        with transaction.atomic():
            ledger.write_requests(deliveries, now)
            transaction.set_rollback(True)
    except (DataError, IntegrityError) as error:
        if len(deliveries) == 1:
            return [], [_poison(deliveries[0], error)]
        middle = len(deliveries) // 2
        left, right = _separate(deliveries[:middle], now), _separate(deliveries[middle:], now)
        return left[0] + right[0], left[1] + right[1]
    return list(deliveries), []


def _poison(delivery: Delivery, error: Exception) -> Dead:
    return Dead(
        delivery.stream_id,
        delivery.origin,
        "refused_by_database",
        str(error),
        encode(delivery.event),
        delivery.spool_id,
        delivery.sequence,
    )


def _write_dead(dead: Sequence[Dead], now: dt.datetime) -> None:
    DeadLetter.objects.bulk_create(
        [
            DeadLetter(
                origin=item.origin,
                reason=item.reason,
                detail=item.detail.replace("\0", ""),
                payload=item.payload,
                at=now,
            )
            for item in dead
        ],
        ignore_conflicts=True,
    )


def _findings(
    deliveries: Sequence[Delivery],
    dead: Sequence[Dead],
    new: frozenset[ledger.RequestKey],
    now: dt.datetime,
) -> Iterator[Finding]:
    at_ms = to_ms(now)
    for item in dead:
        text = f"Event {item.origin} could not be stored ({item.reason}); it is kept aside."
        yield Finding(SKILL, "dead_letter", "critical", item.spool_id or "stream", text, at_ms)
    for delivery in deliveries:
        event = delivery.event
        if not isinstance(event, RequestFinished):
            continue
        if (event.tenant_id, event.request_id, event.attempt) not in new:
            continue
        code, text = bill_fault(event)
        if code:
            yield Finding(SKILL, code, "critical", event.request_id, text, at_ms)


def _gap(spool_id: str, missing: int, base: int, delivery: Delivery) -> Finding:
    text = (
        f"Spool {spool_id} no longer holds {missing} events below {base} that the ledger has not. "
        "Was the database restored from a backup?"
    )
    at_ms = int(delivery.stream_id.partition("-")[0])
    return Finding(SKILL, "spool_gap", "critical", spool_id, text, at_ms)
