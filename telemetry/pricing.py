"""Price arithmetic, in one place for the gateway, the ledger and the page that explains."""

from __future__ import annotations

from typing import Final, NamedTuple

TOKENS_PER_PRICE: Final = 1_000_000


class Rates(NamedTuple):
    """Micro-dollars for a million tokens."""

    input: int
    output: int
    cached_input: int


class Tokens(NamedTuple):
    """`cached_input` is part of `input`, as engines report it."""

    input: int
    output: int
    cached_input: int = 0


def billed_microusd(rates: Rates, tokens: Tokens) -> int:
    """Micro-dollars for one request, rounded up once at the end.

    Up, so that a price above zero never bills zero; once, so that the parts of a request add up.
    """
    fresh = tokens.input - tokens.cached_input
    units = (
        fresh * rates.input
        + tokens.cached_input * rates.cached_input
        + tokens.output * rates.output
    )
    return -(-units // TOKENS_PER_PRICE)
