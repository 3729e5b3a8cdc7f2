"""The part of time a spend page speaks of, in the time zone of whoever reads it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from policies.schema.window import time_zones

PRESETS: Final = {"today": "Today", "7d": "7 days", "month": "This month", "custom": "Custom"}
DEFAULT_PRESET: Final = "month"
COMMON_ZONES: Final = (
    "UTC",
    "Europe/London",
    "Europe/Berlin",
    "America/New_York",
    "America/Los_Angeles",
    "Asia/Kolkata",
    "Asia/Tokyo",
    "Australia/Sydney",
)
_HOURS_UP_TO: Final = timedelta(days=2)
_LONGEST_DAYS: Final = 400
_EARLIEST: Final = date(2000, 1, 1)
_LATEST: Final = date(2100, 1, 1)


@dataclass(frozen=True, slots=True)
class Period:
    """[begin, end), aware. `first` and `last` are the local days it covers."""

    preset: str
    zone: ZoneInfo
    begin: datetime
    end: datetime
    first: date
    last: date
    error: str = ""
    """Why what was asked for is not shown; the default period is shown instead."""

    @property
    def by_hour(self) -> bool:
        return self.end - self.begin <= _HOURS_UP_TO

    @property
    def words(self) -> str:
        if self.first == self.last:
            return _day(self.first)
        return f"{_day(self.first)} to {_day(self.last)}"


def period_of(query: Mapping[str, str], now: datetime) -> Period:
    """From `period`, `zone`, `from` and `to`; what makes no sense is said and replaced by this month."""
    zone_name = query.get("zone", "UTC") or "UTC"
    known = zone_name in time_zones()
    zone = ZoneInfo(zone_name if known else "UTC")
    error = "" if known else "There is no such time zone; UTC is shown."
    preset = query.get("period", DEFAULT_PRESET)
    today = now.astimezone(zone).date()
    days: tuple[date, date] | str = _days(preset, query, today)
    if isinstance(days, str):
        return _period(DEFAULT_PRESET, zone, (today.replace(day=1), today), days)
    return _period(preset, zone, days, error)


def _days(preset: str, query: Mapping[str, str], today: date) -> tuple[date, date] | str:
    if preset == "custom":
        return _custom(query.get("from", ""), query.get("to", ""))
    firsts = {"today": today, "7d": today - timedelta(days=6), "month": today.replace(day=1)}
    if preset not in firsts:
        return "There is no such period; this month is shown."
    return firsts[preset], today


def _custom(first: str, last: str) -> tuple[date, date] | str:
    try:
        days = date.fromisoformat(first), date.fromisoformat(last)
    except ValueError:
        return "Enter both days as year-month-day; this month is shown."
    if days[0] > days[1]:
        return "The first day must not be after the last; this month is shown."
    if days[0] < _EARLIEST or days[1] > _LATEST:
        return "The days must be between 2000 and 2100; this month is shown."
    if (days[1] - days[0]).days > _LONGEST_DAYS:
        return f"At most {_LONGEST_DAYS} days can be shown at once; this month is shown."
    return days


def _period(preset: str, zone: ZoneInfo, days: tuple[date, date], error: str) -> Period:
    """From local midnight to local midnight, so a day may have 23 or 25 hours."""
    begin = datetime.combine(days[0], time(), zone)
    end = datetime.combine(days[1] + timedelta(days=1), time(), zone)
    return Period(preset, zone, begin.astimezone(UTC), end.astimezone(UTC), days[0], days[1], error)


def _day(day: date) -> str:
    return f"{day.day} {day:%b %Y}"
