from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.ui.yaml_text import YamlProblem, dump, load

WORDS = st.text(max_size=20) | st.sampled_from(
    [
        "off",
        "on",
        "yes",
        "no",
        "null",
        "~",
        "1_000",
        "0o17",
        "12:30",
        "2026-01-01",
        "1e3",
        "# x",
        "a: b",
        "",
    ]
)
PLAIN = (
    st.none()
    | st.booleans()
    | st.integers(-(10**17), 10**17)
    | st.floats(allow_nan=False, allow_infinity=False)
    | WORDS
)
KEYS = st.text("abcdefghij_", min_size=1, max_size=10)
VALUES = st.recursive(
    PLAIN,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


@given(VALUES)
def test_what_is_written_is_read_back(value: Any) -> None:
    assert load(dump(value)) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("mode: off", {"mode": "off"}),
        ("a: yes\nb: true", {"a": "yes", "b": True}),
        ("day: 2026-01-01", {"day": "2026-01-01"}),
        ("a:\nb: ~", {"a": None, "b": None}),
        ("a: [1, 0.5, x]", {"a": [1, 0.5, "x"]}),
    ],
)
def test_words_stay_words(text: str, value: Any) -> None:
    assert load(text) == value


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: &x [1]\nb: *x", "Aliases"),
        ("a: 1\na: 2", "twice"),
        ("1: 2", "must be a word"),
        ("a: [", "Line 1"),
        ("!!python/object/apply:os.system [ls]", "constructor"),
        ("a: !!int x", "cannot be read"),
        ("[" * 40, "nested too deeply"),
        ("a: \x00", "cannot be read"),
        ("x" * 200_001, "too long"),
    ],
)
def test_what_is_no_plain_document_is_refused_in_words(text: str, words: str) -> None:
    with pytest.raises(YamlProblem) as caught:
        load(text)
    assert words in str(caught.value)
