"""Minutes of GPU readings, and findings, out of their streams into the database.

The position in a stream is stored in the transaction that stores what was read up to it, so that a
restart neither loses nor doubles a sample.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec
from django.db import connection, transaction

from telemetry import ledger
from telemetry.events import FINDING_STREAM, SAMPLE_STREAM, Finding
from telemetry.models import StreamPosition
from telemetry.nvml import codec
from telemetry.nvml.codec import NodeSample
from telemetry.rows import from_ms

Entry = tuple[bytes, dict[bytes, bytes]]
NOT_A_NUMBER_FIELDS: Final = frozenset({"clocks_event_reasons"})
"""Bit masks: a mean of them says nothing."""

_decode_finding: Final = msgspec.json.Decoder(Finding).decode
_SAMPLE_SQL: Final = """
INSERT INTO telemetry_gpusamplerollup AS kept
  (minute, node, uuid, field, low, high, total, samples)
SELECT * FROM unnest(%s::timestamptz[], %s::text[], %s::text[], %s::text[], %s::float8[],
  %s::float8[], %s::float8[], %s::int[])
ON CONFLICT (minute, uuid, field) DO UPDATE SET low = least(kept.low, excluded.low),
  high = greatest(kept.high, excluded.high), total = kept.total + excluded.total,
  samples = kept.samples + excluded.samples
"""


def position(stream: str) -> str:
    """Id of the last entry stored from `stream`."""
    row = StreamPosition.objects.filter(stream=stream).first()
    return row.last_id if row is not None else "0-0"


def after(entry_id: bytes, last_id: str) -> bool:
    return _parts(entry_id.decode()) > _parts(last_id)


def _parts(entry_id: str) -> tuple[int, int]:
    ms, _, number = entry_id.partition("-")
    return int(ms), int(number or 0)


def decode_samples(entries: Iterable[Entry]) -> list[NodeSample]:
    """What can be read; an entry of a newer agent or of nobody is skipped, it holds no money."""
    found = []
    for _, fields in entries:
        try:
            found.append(codec.decode(fields.get(b"e", b"")))
        except (msgspec.MsgspecError, UnicodeDecodeError):
            continue
    return found


class MinuteSums:
    """Collects samples between two visits to the database."""

    def __init__(self) -> None:
        self._sums: dict[tuple[dt.datetime, str, str, str], list[float]] = {}
        self._last_id = ""

    def add(self, entries: Sequence[Entry]) -> None:
        for sample in decode_samples(entries):
            minute = from_ms(sample.at_ms - sample.at_ms % 60_000)
            for gpu in sample.gpus:
                for name, value in gpu.readings.items():
                    if name not in NOT_A_NUMBER_FIELDS:
                        self._add((minute, sample.node[:120], gpu.uuid[:96], name[:40]), value)
        if entries:
            self._last_id = entries[-1][0].decode()

    def _add(self, key: tuple[dt.datetime, str, str, str], value: float) -> None:
        low, high, total, samples = self._sums.get(key, [value, value, 0.0, 0])
        self._sums[key] = [min(low, value), max(high, value), total + value, samples + 1]

    def flush(self, now: dt.datetime) -> None:
        """Raises django.db.Error; nothing is forgotten then."""
        if not self._last_id:
            return
        rows = [(*key, *sums) for key, sums in sorted(self._sums.items())]
        with transaction.atomic():
            if rows:
                columns: list[list[Any]] = [list(column) for column in zip(*rows, strict=True)]
                with connection.cursor() as cursor:
                    cursor.execute(_SAMPLE_SQL, columns)
            ledger.write_position(SAMPLE_STREAM, self._last_id, now)
        self._sums.clear()
        self._last_id = ""


def store_findings(entries: Sequence[Entry], now: dt.datetime) -> None:
    """Raises django.db.Error; the position stays where it was then."""
    findings = []
    for _, fields in entries:
        try:
            findings.append(_decode_finding(fields.get(b"e", b"")))
        except (msgspec.MsgspecError, UnicodeDecodeError):
            continue
    with transaction.atomic():
        ledger.write_findings(findings)
        ledger.write_position(FINDING_STREAM, entries[-1][0].decode(), now)
