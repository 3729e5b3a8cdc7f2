"""What a lease states of itself when the terms of its budget changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gateway.limits.keeper import LeaseKeeper
from gateway.limits.leases import BudgetTerms, LeaseBook, Purse
from gateway.limits.table import LeaseTable

SOFT = BudgetTerms("bud_1", "B", 1000, "total", "UTC", "soft")
HARD = BudgetTerms("bud_1", "B", 1000, "total", "UTC", "hard")
OP, GRANTED, USED, HELD, LEDGERED, LIMIT, LEAST, WANT = range(2, 10)


class _Scripts:
    """The keeper registers its script here; the tests look at what it would send."""

    def register_script(self, text: str) -> str:
        return text


@pytest.fixture
def book(tmp_path: Path) -> LeaseBook:
    return LeaseBook(LeaseTable(tmp_path / "leases.bin"))


def sent(book: LeaseBook, purse: Purse, hold: int, want: int) -> list[int | str]:
    redis: Any = _Scripts()
    return LeaseKeeper(redis, book, "s", lambda: 0)._call(purse.current(1), hold, want)[1]


def test_what_a_soft_budget_spent_without_a_grant_is_stated_once_when_it_becomes_hard(
    book: LeaseBook,
) -> None:
    soft = Purse(book, (SOFT,))
    soft.current(1)
    (lease,) = soft.take(70, 1)
    lease.settle(70, 60)
    soft.take(30, 1)
    args = sent(book, Purse(book, (HARD,)), 50, 200)
    assert (args[GRANTED], args[USED], args[HELD]) == (90, 60, 30)
    assert (args[LEAST], args[WANT]) == (50, 200), "the debt is stated, not asked for as well"


def test_a_request_under_way_joins_a_purse_once(book: LeaseBook) -> None:
    purse = Purse(book, (HARD,))
    carried = purse.join((), 40, 1, 1)
    assert purse.join(carried, 40, 1, 1) == carried
    (lease,) = carried
    assert (lease.held, lease.free) == (40, -40)
    assert sent(book, purse, 0, 0)[GRANTED] == 40
    assert not purse.can_pay(1)


def test_terms_of_an_older_snapshot_do_not_come_back(book: LeaseBook) -> None:
    lower = BudgetTerms("bud_1", "B", 10, "total", "UTC", "hard")
    book.in_force = {"bud_1": lower}
    assert Purse(book, (HARD,)).current(1)[0].terms is lower


def test_terms_of_another_window_are_kept_apart(book: LeaseBook) -> None:
    daily = BudgetTerms("bud_1", "B", 10, "day", "UTC", "hard")
    book.in_force = {"bud_1": daily}
    assert Purse(book, (HARD,)).current(1)[0].terms is HARD
