"""Tokens are exact and answers are a function of the prompt."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.engine.lexicon import Lexicon, Story, count_tokens, word_ids

RANGE = (8, 32)


@given(st.text(max_size=200))
def test_every_text_has_as_many_ids_as_it_counts_tokens(text: str) -> None:
    assert len(Lexicon().encode(text)) == count_tokens(text)


def test_known_text_survives_encoding_and_decoding() -> None:
    words = Lexicon()
    text = "Hello there,  world!\nSecond line of it."
    assert words.decode(words.encode(text)) == text


@given(st.integers(1, 40), st.integers(1, 40))
def test_token_i_is_the_same_however_many_are_asked_for(first: int, second: int) -> None:
    prompt = Lexicon().encode("What is the capital of France?")
    short, long = sorted((first, second))
    one, other = Story(prompt, 0, RANGE), Story(prompt, 0, RANGE)
    assert one.pieces(short) == other.pieces(long)[:short]


def test_an_answer_counts_exactly_the_tokens_that_were_produced() -> None:
    pieces = Story(Lexicon().encode("Count me"), 0, RANGE).pieces(25)
    assert count_tokens("".join(pieces)) == 25


@given(st.integers(0, 30))
def test_a_cut_answer_is_continued_where_it_stopped(cut: int) -> None:
    words = Lexicon()
    prompt = words.encode("Tell me a story")
    whole = Story(prompt, 7, RANGE).pieces(30)
    rest = Story(prompt + word_ids(whole[:cut]), 7, RANGE)
    assert rest.offset == cut
    assert "".join(whole[:cut] + rest.pieces(30 - cut)) == "".join(whole)


def test_other_prompts_and_other_seeds_give_other_answers() -> None:
    words = Lexicon()
    answers = {
        "".join(Story(words.encode(prompt), seed, RANGE).pieces(12))
        for prompt in ("one", "two")
        for seed in (0, 1)
    }
    assert len(answers) == 4
