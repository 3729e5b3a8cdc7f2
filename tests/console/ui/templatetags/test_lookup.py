from __future__ import annotations

import pytest

from console.ui.templatetags.lookup import millionths, money_beside, named, short_id


@pytest.mark.parametrize(
    ("value", "words"),
    [(0, "0"), (1, "0.000001"), (31_950_000, "31.95"), (5_000_000_000, "5,000")],
)
def test_millionths_are_exact(value: int, words: str) -> None:
    assert millionths(value) == words


def test_a_column_that_adds_up_shows_what_it_adds() -> None:
    assert [money_beside(each, 12_663) for each in (11_785, 573, 305)] == [
        "$0.011785",
        "$0.000573",
        "$0.000305",
    ]
    assert money_beside(2_500_000_000, 10**10) == "$2,500.00"


def test_what_has_no_name_keeps_its_id() -> None:
    assert named({"ten_1": "Acme"}, "ten_1") == "Acme"
    assert named({}, "ten_1") == "ten_1"


def test_a_short_id_keeps_both_ends() -> None:
    assert short_id("req_f8617c193af191ff00000000003d") == "req_f861…0003d"
    assert short_id("req_1") == "req_1"
