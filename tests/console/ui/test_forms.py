"""Bad input to the fields of the console: a sentence, never a traceback and never a guess."""

from __future__ import annotations

import pytest
from django.core.exceptions import ValidationError
from hypothesis import given
from hypothesis import strategies as st

from console.ui.forms import MAX_MICROUSD, CountField, MoneyField, WordsField, dollars


@pytest.mark.parametrize(
    "text",
    [
        "NaN",
        "inf",
        "1e9",
        "--1",
        "-1",
        "1.2.3",
        ".",
        "$",
        "٣",
        "0x10",
        "1 000",
        "0.0000001",
        "99999999999",
        "'; --",
    ],
)
def test_money_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValidationError):
        MoneyField().clean(text)


@pytest.mark.parametrize(
    ("text", "microusd"),
    [("12.50", 12_500_000), ("$1,000", 1_000_000_000), (".5", 500_000), ("0", 0)],
)
def test_money_is_read_as_people_write_it(text: str, microusd: int) -> None:
    assert MoneyField().clean(text) == microusd


@given(st.integers(min_value=0, max_value=MAX_MICROUSD))
def test_an_amount_survives_the_form_to_the_last_micro_dollar(microusd: int) -> None:
    assert MoneyField().clean(dollars(microusd)) == microusd


def test_no_limit_is_not_zero() -> None:
    assert CountField().clean("") is None
    assert CountField().clean("0") == 0


@pytest.mark.parametrize("text", ["-1", "1.5", "many", "9" * 30])
def test_a_count_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValidationError):
        CountField().clean(text)


def test_words_are_taken_once_in_their_order() -> None:
    assert WordsField(required=False).clean("b, a;b\n c") == ["b", "a", "c"]
