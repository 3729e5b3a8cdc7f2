from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.spend.export import COLUMNS, csv_lines, safe
from telemetry.models import LedgerEntry
from tests.telemetry.factories import NOON


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@x", "\tx", "\rx"])
def test_a_formula_becomes_text(text: str) -> None:
    assert safe(text) == f"'{text}"


@given(st.text())
def test_no_cell_begins_like_a_formula(text: str) -> None:
    assert not safe(text).startswith(("=", "+", "-", "@", "\t", "\r"))
    assert safe(text).removeprefix("'") in (text, text.removeprefix("'"))


@given(st.integers(0, 10**15))
def test_dollars_say_the_same_as_micro_dollars(billed: int) -> None:
    numbers = {
        name: 0
        for name in COLUMNS
        if name.endswith(("_tokens", "_mtok")) or name in ("attempt", "status", "policy_revision")
    }
    row = LedgerEntry(occurred_at=NOON, billed_microusd=billed, **numbers)
    header, line = csv_lines([row], {}, {})
    cells = dict(zip(header.strip().split(","), line.strip().split(","), strict=True))
    whole, _, part = cells["billed_usd"].partition(".")
    assert int(whole) * 1_000_000 + int(part) == billed == int(cells["billed_microusd"])
