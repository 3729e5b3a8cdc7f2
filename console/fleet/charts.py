"""Coordinates of the live page's graphics. Only attributes: a style attribute would break the CSP."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import ceil, floor, log10
from typing import Final

from console.ui import format as form

WIDTH: Final = 1000
HEIGHT: Final = 120
LEAST_TOP: Final = 2
_STEPS: Final = (1, 2, 5, 10)
_HEAT: Final = (10.0, 30.0, 60.0, 85.0)


@dataclass(frozen=True, slots=True)
class Line:
    path: str
    label: str
    latest: str
    tone: str
    """CSS class: `l1` the first series, `l2` the second."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the chart's table."""

    at: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Chart:
    """A line chart of WIDTH x HEIGHT units, its labels, and the table of the same values."""

    lines: tuple[Line, ...]
    top: str
    middle: str
    times: tuple[str, str, str]
    summary: str
    table: tuple[Row, ...]


def money_chart(values: Sequence[int], end_s: int) -> Chart:
    """Micro-dollars billed in each second."""
    top = nice_top(max(values, default=0))
    latest = f"{form.money(values[-1] if values else 0)} /s"
    line = Line(path_of(values, top), "Billed", latest, "l1")
    total = form.money(sum(values))
    summary = f"Billed per second over {len(values)} seconds: {total} in all, {latest} at the end."
    return Chart(
        (line,),
        form.money(top),
        form.money(top // 2),
        times_of(end_s, len(values)),
        summary,
        _by_ten(values, end_s),
    )


def _by_ten(values: Sequence[int], end_s: int) -> tuple[Row, ...]:
    """Ten seconds a line, newest first: what a reader of numbers wants of two minutes."""
    starts = range(0, len(values), 10)
    first_s = end_s - len(values) + 1
    rows = [Row(clock(first_s + at), (form.money(sum(values[at : at + 10])),)) for at in starts]
    return tuple(reversed(rows))


def nice_top(highest: float) -> int:
    """The smallest of 2, 10, 20, 50, 100 … not below the highest value; even, so that it halves."""
    if highest <= LEAST_TOP:
        return LEAST_TOP
    unit: int = 10 ** floor(log10(highest))
    return next(unit * step for step in _STEPS if unit * step >= highest)


def path_of(values: Sequence[float], top: float) -> str:
    if len(values) <= 1:
        return ""
    step = WIDTH / (len(values) - 1)
    points = (
        f"{i * step:.0f} {HEIGHT - value / top * HEIGHT:.1f}" for i, value in enumerate(values)
    )
    return "M" + "L".join(points)


def times_of(end_s: int, count: int) -> tuple[str, str, str]:
    """First, middle and last second of the axis, UTC."""
    first = end_s - count + 1
    return clock(first), clock((first + end_s) // 2), clock(end_s)


def clock(unix_s: float) -> str:
    return f"{datetime.fromtimestamp(unix_s, UTC):%H:%M:%S}"


def clock_ms(unix_ms: int) -> str:
    """`14:03:10.412`, UTC."""
    return f"{clock(unix_ms // 1000)}.{unix_ms % 1000:03d}"


@dataclass(frozen=True, slots=True)
class Cell:
    x: int
    heat: str


def heat_strip(values: Sequence[float | None]) -> tuple[Cell, ...]:
    """One cell a span of time; a span without a sample is hatched, not pale."""
    return tuple(Cell(x, _heat(value)) for x, value in enumerate(values))


def _heat(value: float | None) -> str:
    if value is None:
        return "h0"
    return f"h{1 + sum(value >= step for step in _HEAT)}"


def gigabytes(value: float) -> str:
    """`74.1`: ten to the ninth, as memory is sold."""
    return f"{value / 1e9:.1f}"


def whole_percent(ratio: float) -> str:
    return f"{ceil(ratio * 100 - 0.5)} %"
