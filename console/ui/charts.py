"""Coordinates for the small server-rendered graphics. Only attributes: a style attribute would break the CSP."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from console.ui import format as form

_NEAR, _AT_LIMIT = 0.80, 0.95


@dataclass(frozen=True, slots=True)
class LimitBar:
    """Used and reserved part of a limit on a track of 100 units."""

    used: float
    reserved: float
    reserved_from: float
    tone: str
    """CSS class of the used part: empty, `w` from 80 %, `b` from 95 %."""
    share: str
    label: str


def limit_bar(used: int, reserved: int, limit: int) -> LimitBar:
    """`used` and `reserved` in micro-dollars against `limit`; a limit of 0 is full from the start."""
    share = used / limit if limit > 0 else 1.0
    width = min(share, 1.0) * 100
    held = min(reserved / limit * 100 if limit > 0 else 0.0, 100 - width)
    tone = "b" if share >= _AT_LIMIT else "w" if share >= _NEAR else ""
    label = f"{form.money(used)} spent and {form.money(reserved)} reserved of {form.money(limit)}"
    return LimitBar(
        round(width, 1), round(held, 1), round(width, 1), tone, form.percent(share), label
    )


@dataclass(frozen=True, slots=True)
class Spark:
    """Two SVG paths in a box of 100 x 24 units."""

    line: str
    area: str


def spark(values: Sequence[float]) -> Spark | None:
    """A trend line; None when there are fewer than two points to join."""
    if len(values) <= 1:
        return None
    low, high = min(values), max(values)
    spread = (high - low) or 1.0
    step = 100 / (len(values) - 1)
    points = [
        f"{i * step:.1f} {22 - (value - low) / spread * 20:.1f}" for i, value in enumerate(values)
    ]
    line = "M" + "L".join(points)
    return Spark(line, f"{line}V24H0Z")
