"""Figures, chart and table of a spend page. One query over the ledger's sums each; the total is theirs, not ours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

from console.actor import Actor
from console.spend import selectors
from console.spend.period import Period
from console.spend.selectors import Group, Only
from console.ui import format as form
from telemetry.selectors import Counters, GroupBy, Usage

WIDTH: Final = 1000
HEIGHT: Final = 200
SERIES: Final = 5
"""With a colour of their own; the rest is one more."""
ROWS: Final = 50
_STEPS: Final = (1, 2, 5, 10)
_GAP: Final = 0.16


@dataclass(frozen=True, slots=True)
class GroupRow:
    """One line of the table. `id` is empty for the line that sums what is not listed."""

    id: str
    name: str
    counters: Counters
    share: float
    colour: int
    """1 to 6, as the chart has it."""


@dataclass(frozen=True, slots=True)
class Bar:
    x: float
    y: float
    width: float
    height: float
    colour: int
    title: str


@dataclass(frozen=True, slots=True)
class Column:
    """One day or hour, for the table that says the same as the chart."""

    label: str
    values: tuple[int, ...]
    total: int


@dataclass(frozen=True, slots=True)
class Chart:
    bars: tuple[Bar, ...]
    columns: tuple[Column, ...]
    names: tuple[tuple[str, int], ...]
    """Series and their colours."""
    top: str
    middle: str
    ticks: tuple[str, ...]
    label: str


@dataclass(frozen=True, slots=True)
class Report:
    total: Counters
    rows: tuple[GroupRow, ...]
    chart: Chart
    as_of: datetime | None
    group_count: int


def spend_report(actor: Actor, period: Period, group: Group, only: Only) -> Report:
    usage = selectors.usage_in(actor, period.begin, period.end, (group,), only)
    names = selectors.names_of({row.group[group] for row in usage.rows[:ROWS]}, group)
    rows = _rows(usage, group, names)
    step: GroupBy = "hour" if period.by_hour else "day"
    times = selectors.usage_in(actor, period.begin, period.end, (step, group), only, period.zone)
    chart = _chart(times, period, group, rows)
    return Report(usage.total, tuple(rows), chart, usage.as_of, len(usage.rows))


def _rows(usage: Usage, group: Group, names: dict[str, str]) -> list[GroupRow]:
    """The largest 50 and one line for all others, so that the column adds up to the total."""
    whole = usage.total.billed_microusd
    found = [
        GroupRow(
            row.group[group],
            names.get(row.group[group]) or row.group[group],
            row.counters,
            _share(row.counters.billed_microusd, whole),
            min(place, SERIES) + 1,
        )
        for place, row in enumerate(usage.rows[:ROWS])
    ]
    rest = usage.rows[ROWS:]
    if rest:
        others = sum((row.counters for row in rest), Counters())
        share = _share(others.billed_microusd, whole)
        found.append(GroupRow("", f"{len(rest)} others", others, share, SERIES + 1))
    return found


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


# ------------------------------------------------------------------------------------------ chart


def _chart(usage: Usage, period: Period, group: Group, rows: Sequence[GroupRow]) -> Chart:
    shown = [row for row in rows if row.colour <= SERIES]
    places = {row.id: place for place, row in enumerate(shown)}
    slots = _slots(period)
    sums = {slot: [0] * (len(shown) + 1) for slot, _ in slots}
    for row in usage.rows:
        slot = row.group["hour" if period.by_hour else "day"]
        values = sums.get(slot)
        if values is not None:
            values[places.get(row.group[group], len(shown))] += row.counters.billed_microusd
    more = any(values[-1] for values in sums.values())
    names = [(row.name, row.colour) for row in shown] + ([("Others", SERIES + 1)] if more else [])
    columns = tuple(
        Column(label, tuple(sums[slot][: len(names)]), sum(sums[slot])) for slot, label in slots
    )
    top = _nice(max((column.total for column in columns), default=0))
    return Chart(
        bars=_bars(columns, names, top),
        columns=columns,
        names=tuple(names),
        top=form.money(top),
        middle=form.money(top // 2),
        ticks=_ticks([label for _, label in slots]),
        label=f"Spend by {'hour' if period.by_hour else 'day'}, {period.words}",
    )


def _slots(period: Period) -> list[tuple[Any, str]]:
    """Every day or hour of the period, also those in which nothing was spent."""
    if not period.by_hour:
        count = (period.last - period.first).days + 1
        days = [period.first + timedelta(days=number) for number in range(count)]
        return [(day, _day_label(day)) for day in days]
    count = int((period.end - period.begin).total_seconds() // 3600)
    hours = [period.begin + timedelta(hours=number) for number in range(count)]
    return [(hour, f"{hour.astimezone(period.zone):%H:%M}") for hour in hours]


def _day_label(day: date) -> str:
    return f"{day.day} {day:%b}"


def _bars(columns: Sequence[Column], names: Sequence[tuple[str, int]], top: int) -> tuple[Bar, ...]:
    width = WIDTH / max(len(columns), 1)
    found = []
    for place, column in enumerate(columns):
        base = float(HEIGHT)
        for (name, colour), value in zip(names, column.values, strict=True):
            height = value / top * HEIGHT if top else 0.0
            if not value:
                continue
            base -= height
            title = f"{column.label}, {name}: {form.money(value)}"
            left, inner = round(width * (place + _GAP / 2), 1), round(width * (1 - _GAP), 1)
            found.append(Bar(left, round(base, 1), inner, round(height, 1), colour, title))
    return tuple(found)


def _nice(value: int) -> int:
    """The next round number above, in micro-dollars; never 0, or nothing could be drawn against it."""
    unit = 1
    while True:
        for step in _STEPS:
            if step * unit >= value and step * unit > 1:
                return step * unit
        unit *= 10


def _ticks(labels: Sequence[str]) -> tuple[str, ...]:
    """At most five, first and last among them."""
    if len(labels) <= 5:  # noqa: PLR2004
        return tuple(labels)
    last = len(labels) - 1
    return tuple(labels[round(last * part / 4)] for part in range(5))


def freshness(as_of: datetime | None, now: datetime) -> str:
    if as_of is None:
        return "nothing was ever counted"
    behind = max(0.0, (now - as_of).total_seconds())
    return f"as of {as_of.astimezone(UTC):%H:%M:%S} UTC, {behind:.1f} s behind"
