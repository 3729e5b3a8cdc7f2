"""Tokens of the fake engines: an exact tokenizer and a text that is a function of prompt and seed.

A token is at most six visible characters with the space before them. Produced tokens come from a
vocabulary of their own ("baku dire mose ..."), so a prompt that ends in produced tokens is recognised as a
continuation: the engine goes on where the cut answer stopped, which is what a real engine at temperature 0
does with prompt + emitted tokens.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence
from random import Random
from typing import Final
from zlib import crc32

PIECE: Final = re.compile(r" ?[^\s]{1,6}|\s")
ROLE_IDS: Final = {"system": 3, "user": 4, "assistant": 5, "tool": 6, "developer": 7}
END_OF_TURN: Final = 2
START: Final = 1

_CONSONANTS: Final = "bdfgklmnprstvz"
_VOWELS: Final = "aeiou"
_SYLLABLES: Final = [c + v for c in _CONSONANTS for v in _VOWELS]
WORDS: Final = tuple(a + b for a in _SYLLABLES[:64] for b in _SYLLABLES[:64])
"""4,096 four-letter words; one word with the space before it is one token."""

FIRST_WORD_ID: Final = 256
FIRST_PIECE_ID: Final = FIRST_WORD_ID + len(WORDS)
PIECE_IDS: Final = 120_000
VOCABULARY: Final = FIRST_PIECE_ID + PIECE_IDS

_WORD_IDS: Final = {word: FIRST_WORD_ID + index for index, word in enumerate(WORDS)}
_MAX_REMEMBERED: Final = 200_000


class Lexicon:
    """Text to token ids and back. Ids of prompt pieces are hashes, remembered so that they can be undone."""

    __slots__ = ("_ids", "_pieces")

    def __init__(self) -> None:
        self._ids: dict[str, int] = {}
        self._pieces: dict[int, str] = {}

    def encode(self, text: str) -> list[int]:
        ids = self._ids
        try:
            return [ids[piece] for piece in PIECE.findall(text)]
        except KeyError:
            return [self._id(piece) for piece in PIECE.findall(text)]

    def _id(self, piece: str) -> int:
        known = self._ids.get(piece)
        if known is not None:
            return known
        if len(self._ids) >= _MAX_REMEMBERED:
            self._ids.clear()
            self._pieces.clear()
        word = _WORD_IDS.get(piece.lstrip(" "))
        token = word if word is not None else FIRST_PIECE_ID + crc32(piece.encode()) % PIECE_IDS
        self._ids[piece] = token
        self._pieces[token] = piece
        return token

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of tokens; ids never seen here become U+FFFD, as in a tokenizer with unknown bytes."""
        return "".join(map(self._piece, tokens)).removeprefix(" ")

    def _piece(self, token: int) -> str:
        if FIRST_WORD_ID <= token < FIRST_PIECE_ID:
            return " " + WORDS[token - FIRST_WORD_ID]
        return self._pieces.get(token, "\N{REPLACEMENT CHARACTER}")


def count_tokens(text: str) -> int:
    """Exact number of tokens in `text`, for prompts and for answers alike."""
    return len(PIECE.findall(text))


def is_produced(token: int) -> bool:
    return FIRST_WORD_ID <= token < FIRST_PIECE_ID


def root_and_offset(prompt: Sequence[int]) -> tuple[Sequence[int], int]:
    """The prompt without produced tokens at its end, and how many those were."""
    end = len(prompt)
    while end and is_produced(prompt[end - 1]):
        end -= 1
    return prompt[:end], len(prompt) - end


class Story:
    """All that would ever be said after one prompt: token i is the same however often and from where it is asked."""

    __slots__ = ("_dice", "_words", "natural_tokens", "offset")

    def __init__(self, prompt: Sequence[int], seed: int, answer_tokens: tuple[int, int]) -> None:
        root, self.offset = root_and_offset(prompt)
        low, high = answer_tokens
        key = crc32(array("I", root).tobytes())
        self._dice = Random(key << 32 ^ seed)
        self.natural_tokens = low + key % (high - low + 1)
        self._words: list[str] = []

    def words(self, count: int) -> list[str]:
        """The next `count` words after the prompt, endless if need be."""
        missing = self.offset + count - len(self._words)
        if missing > 0:
            self._words += self._dice.choices(WORDS, k=missing)
        return self._words[self.offset : self.offset + count]

    def pieces(self, count: int) -> list[str]:
        """The same as text, one piece a token; the first of an answer has no space before it."""
        words = self.words(count)
        texts = [" " + word for word in words]
        if texts and not self.offset:
            texts[0] = words[0]
        return texts

    @property
    def tokens_left(self) -> int:
        """Tokens until the answer ends by itself, at least 0."""
        return max(0, self.natural_tokens - self.offset)


def word_ids(words: Sequence[str]) -> list[int]:
    return [_WORD_IDS[word.lstrip(" ")] for word in words]
