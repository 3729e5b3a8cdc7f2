"""Identifiers: type prefix, underscore, ULID. They sort by time of creation and say what they name."""

from __future__ import annotations

import secrets
from functools import partial
from typing import Any, Final

from django.db import models
from django.utils import timezone

_ALPHABET: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_RANDOM_BITS: Final = 80
_LENGTH: Final = 26
MAX_LENGTH: Final = 40


def new_id(prefix: str) -> str:
    """48 bits of unix milliseconds and 80 random bits in Crockford's base 32."""
    value = (int(timezone.now().timestamp() * 1000) << _RANDOM_BITS) | secrets.randbits(
        _RANDOM_BITS
    )
    digits = [_ALPHABET[(value >> shift) & 31] for shift in range(5 * (_LENGTH - 1), -1, -5)]
    return f"{prefix}_{''.join(digits)}"


class IdField(models.CharField):  # type: ignore[type-arg]
    """Primary key that fills itself: `IdField("key")` gives `key_01J…`."""

    def __init__(self, prefix: str = "id", **options: Any) -> None:
        self.prefix = prefix
        options |= {
            "primary_key": True,
            "max_length": MAX_LENGTH,
            "editable": False,
            "default": partial(new_id, prefix),
        }
        super().__init__(**options)

    def deconstruct(self) -> Any:
        name, path, args, options = super().deconstruct()
        for fixed in ("primary_key", "max_length", "editable", "default"):
            options.pop(fixed, None)
        return name, path, [self.prefix, *args], options
