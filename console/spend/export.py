"""Ledger rows as CSV: streamed, safe to open in a spreadsheet, exact to the micro-dollar."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from typing import Any, Final

from console.ui.format import money_exact
from telemetry.models import LedgerEntry

COLUMNS: Final = (
    "occurred_at",
    "tenant_id",
    "tenant",
    "key_id",
    "key",
    "model",
    "request_id",
    "attempt",
    "kind",
    "outcome",
    "status",
    "input_tokens",
    "cached_input_tokens",
    "output_tokens",
    "billed_microusd",
    "billed_usd",
    "price_id",
    "input_microusd_per_mtok",
    "cached_input_microusd_per_mtok",
    "output_microusd_per_mtok",
    "usage_source",
    "pool_id",
    "endpoint_id",
    "region",
    "policy_revision",
)
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


class _Echo:
    """A file that gives back what is written, so that nothing is collected."""

    def write(self, text: str) -> str:
        return text


def csv_lines(
    rows: Iterable[LedgerEntry], tenants: dict[str, str], keys: dict[str, str]
) -> Iterator[str]:
    """Header, then one line a row."""
    writer = csv.writer(_Echo())
    yield writer.writerow(COLUMNS)
    for row in rows:
        named = {"tenant": tenants.get(row.tenant_id, ""), "key": keys.get(row.key_id, "")}
        yield writer.writerow([_cell(row, column, named) for column in COLUMNS])


def _cell(row: LedgerEntry, column: str, named: dict[str, str]) -> Any:
    if column in named:
        return safe(named[column])
    if column == "billed_usd":
        return money_exact(row.billed_microusd).replace("$", "").replace(",", "").replace("−", "-")
    value = getattr(row, column)
    if column == "occurred_at":
        return value.isoformat()
    return safe(value) if isinstance(value, str) else value


def safe(text: str) -> str:
    """A cell that a spreadsheet would run as a formula becomes text."""
    return f"'{text}" if text.startswith(_FORMULA) else text
