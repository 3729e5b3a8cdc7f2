from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from console.spend.period import period_of

NOW = datetime(2026, 3, 29, 23, 30, tzinfo=UTC)


def test_a_period_is_whole_days_of_the_readers_zone() -> None:
    period = period_of({"period": "today", "zone": "Asia/Kolkata"}, NOW)
    assert str(period.first) == "2026-03-30"
    assert period.begin == datetime(2026, 3, 29, 18, 30, tzinfo=UTC)
    assert period.by_hour


@pytest.mark.parametrize(("day", "hours"), [("2026-03-29", 23), ("2026-10-25", 25)])
def test_a_day_on_which_clocks_change_has_its_own_length(day: str, hours: int) -> None:
    query = {"period": "custom", "from": day, "to": day, "zone": "Europe/Berlin"}
    period = period_of(query, NOW)
    assert period.end - period.begin == timedelta(hours=hours)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"period": "custom"}, "year-month-day"),
        ({"period": "custom", "from": "2026-02-30", "to": "2026-03-01"}, "year-month-day"),
        ({"period": "custom", "from": "2026-03-02", "to": "2026-03-01"}, "must not be after"),
        ({"period": "custom", "from": "1999-01-01", "to": "1999-01-02"}, "between 2000"),
        ({"period": "custom", "from": "2020-01-01", "to": "2026-01-01"}, "At most 400 days"),
        ({"period": "century"}, "no such period"),
        ({"zone": "Mars/Olympus"}, "no such time zone"),
        ({"zone": "../../etc/passwd"}, "no such time zone"),
    ],
)
def test_what_makes_no_sense_is_said_and_this_month_is_shown(
    query: dict[str, str], words: str
) -> None:
    period = period_of(query, NOW)
    assert words in period.error
    assert str(period.first) == "2026-03-01"
    assert period.end > period.begin
