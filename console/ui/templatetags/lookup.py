"""`{% load lookup %}`: names for ids that a page holds in a dictionary, and sums in exact decimals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from django import template

from console.ui import format as form

register = template.Library()
_CENTS_FROM: Final = 1_000_000_000
"""Micro-dollars: from a thousand dollars on."""
_ID_SHOWN: Final = 16


@register.filter
def named(names: Mapping[str, str], identifier: str) -> str:
    """The name, or the id itself where what it named is gone."""
    return names.get(identifier) or identifier


@register.filter
def millionths(value: int) -> str:
    """Exact: a number of millionths as a decimal without trailing zeros, `22.35`."""
    whole, part = divmod(int(value), 1_000_000)
    digits = f"{part:06d}".rstrip("0")
    return f"{whole:,}.{digits}" if digits else f"{whole:,}"


@register.filter
def money_beside(microusd: int, whole: int) -> str:
    """Money in a column that adds up to `whole`: all six decimals, unless the sum is too large for them to matter."""
    small = microusd != 0 and abs(whole) < _CENTS_FROM
    return form.money_exact(microusd) if small else form.money(microusd)


@register.filter
def short_id(identifier: str) -> str:
    """`req_f861…0003d`: the worker's part and the counter's, which together tell requests apart."""
    return identifier if len(identifier) <= _ID_SHOWN else f"{identifier[:8]}…{identifier[-5:]}"
