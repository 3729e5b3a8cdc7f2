"""`{% load lookup %}`: names for ids that a page holds in a dictionary, and sums in exact decimals."""

from __future__ import annotations

from collections.abc import Mapping

from django import template

register = template.Library()


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
