"""The chart and the table under it are the same sums as the ledger, however they are cut."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, date, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from console.spend.period import Period, period_of
from console.spend.report import HEIGHT, WIDTH, Report, freshness
from console.spend.report import _chart as chart_of
from console.spend.report import _rows as rows_of
from telemetry.selectors import Counters, Usage, UsageRow

NOW = datetime(2026, 3, 20, tzinfo=UTC)
DAYS = st.integers(1, 10).map(lambda day: date(2026, 3, day))
FACTS = st.lists(st.tuples(DAYS, st.integers(0, 70), st.integers(0, 10**12)), max_size=120)


def period() -> Period:
    query = {"period": "custom", "from": "2026-03-01", "to": "2026-03-10"}
    return period_of(query, NOW)


def usage(sums: dict[Any, int], names: tuple[str, ...]) -> Usage:
    rows = [
        UsageRow(
            dict(zip(names, key if isinstance(key, tuple) else (key,), strict=True)),
            Counters(requests=1, billed_microusd=value),
        )
        for key, value in sorted(sums.items(), key=lambda item: -item[1])
    ]
    return Usage(rows, sum((row.counters for row in rows), Counters()), NOW)


def report(facts: list[tuple[date, int, int]]) -> Report:
    by_model: dict[Any, int] = defaultdict(int)
    by_both: dict[Any, int] = defaultdict(int)
    for day, model, value in facts:
        by_model[f"m{model}"] += value
        by_both[day, f"m{model}"] += value
    whole = usage(by_model, ("model",))
    rows = rows_of(whole, "model", {})
    chart = chart_of(usage(by_both, ("day", "model")), period(), "model", rows)
    return Report(whole.total, tuple(rows), chart, NOW, len(whole.rows))


@given(FACTS)
def test_table_chart_and_total_are_one_sum(facts: list[tuple[date, int, int]]) -> None:
    found, whole = report(facts), sum(value for _, _, value in facts)
    assert found.total.billed_microusd == whole
    assert sum(row.counters.billed_microusd for row in found.rows) == whole
    assert sum(column.total for column in found.chart.columns) == whole
    assert all(sum(column.values) == column.total for column in found.chart.columns)


@given(FACTS)
def test_no_bar_leaves_the_chart(facts: list[tuple[date, int, int]]) -> None:
    for bar in report(facts).chart.bars:
        assert bar.y >= -0.11
        assert bar.y + bar.height <= HEIGHT + 0.11
        assert bar.x >= 0
        assert bar.x + bar.width <= WIDTH + 0.11


def test_every_day_of_the_period_has_its_column() -> None:
    assert [column.label for column in report([]).chart.columns][::9] == ["1 Mar", "10 Mar"]


def test_age_is_said_and_unknown_is_not_now() -> None:
    assert freshness(None, NOW) == "nothing was ever counted"
    assert freshness(NOW - timedelta(seconds=2.1), NOW).endswith("2.1 s behind")
