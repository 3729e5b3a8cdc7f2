"""Calendar windows of budgets, in the zone of whoever set them: the workers enforce them, the console shows them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo, available_timezones

from policies.schema.units import BudgetWindow

NEVER_MS: Final = 1 << 62
"""End of a window that does not end."""
DECEMBER: Final = 12


@cache
def time_zones() -> frozenset[str]:
    """Names of every zone the system knows. Looked up once: it walks a folder, which takes tens of milliseconds."""
    return frozenset(available_timezones())


class Window(NamedTuple):
    """Unix milliseconds: `start_ms` inclusive, `end_ms` exclusive."""

    start_ms: int
    end_ms: int

    @property
    def resets_at(self) -> str | None:
        """RFC 3339 in UTC; None: it never does."""
        if self.end_ms >= NEVER_MS:
            return None
        return datetime.fromtimestamp(self.end_ms / 1000, UTC).isoformat().replace("+00:00", "Z")


def window_at(kind: BudgetWindow, timezone: str, now_ms: int) -> Window:
    """The window that holds `now_ms`. Days begin at local midnight, so one may last 23 or 25 hours; weeks on Monday.

    Raises zoneinfo.ZoneInfoNotFoundError (a KeyError) or ValueError for an unknown zone.
    """
    if kind == "total":
        return Window(0, NEVER_MS)
    zone = ZoneInfo(timezone)
    local = datetime.fromtimestamp(now_ms / 1000, zone)
    day = datetime(local.year, local.month, local.day)  # noqa: DTZ001 - the zone comes at the end, after the arithmetic
    if kind == "day":
        begin, end = day, day + timedelta(days=1)
    elif kind == "week":
        begin = day - timedelta(days=day.weekday())
        end = begin + timedelta(days=7)
    else:
        begin = day.replace(day=1)
        end = _next_month(begin)
    return Window(_unix_ms(begin, zone), _unix_ms(end, zone))


def _next_month(first: datetime) -> datetime:
    if first.month == DECEMBER:
        return first.replace(year=first.year + 1, month=1)
    return first.replace(month=first.month + 1)


def _unix_ms(naive: datetime, zone: ZoneInfo) -> int:
    return int(naive.replace(tzinfo=zone).timestamp() * 1000)
