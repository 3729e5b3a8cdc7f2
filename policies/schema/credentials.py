"""API keys and management tokens: how they are made, recognised and stored.

A credential is `ace_live_`, `ace_test_` or `ace_mgmt_`, 43 random base62 characters (256 bits)
and six base62 characters of CRC-32 over all before them. The checksum lets secret scanners find
leaked keys without false alarms, and lets a worker turn away a mistyped key without a look-up.
It is no protection: only the digest decides.
"""

from __future__ import annotations

import hmac
import re
import secrets
from typing import Final, Literal
from zlib import crc32

Kind = Literal["live", "test", "mgmt"]

_ALPHABET: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_BODY_CHARS: Final = 43
_CHECKSUM_CHARS: Final = 6
_SHAPE: Final = re.compile(r"ace_(live|test|mgmt)_[0-9A-Za-z]{49}")


def mint(kind: Kind) -> str:
    """A new credential from the system's random source. It is shown once; only its digest is
    kept.
    """
    body = "".join(secrets.choice(_ALPHABET) for _ in range(_BODY_CHARS))
    unchecked = f"ace_{kind}_{body}"
    return unchecked + _checksum(unchecked)


def checksum_ok(text: str) -> bool:
    """Whether `text` has the shape and the checksum of a credential; says nothing of its being
    known.
    """
    if _SHAPE.fullmatch(text) is None:
        return False
    return _checksum(text[:-_CHECKSUM_CHARS]) == text[-_CHECKSUM_CHARS:]


def digest(pepper: bytes, text: str) -> str:
    """Hex HMAC-SHA256 of the whole credential under `pepper`: what the database and the snapshot
    hold.

    Any text has a digest, also one a client made up, so that an unknown key costs the same as a
    known one.
    """
    return hmac.digest(pepper, text.encode("utf-8", "surrogatepass"), "sha256").hex()


def hint(text: str) -> str:
    """What lists may show of a credential: its prefix and last four characters."""
    return f"{text[:9]}…{text[-4:]}"


def _checksum(unchecked: str) -> str:
    number = crc32(unchecked.encode())
    digits = []
    for _ in range(_CHECKSUM_CHARS):
        number, digit = divmod(number, len(_ALPHABET))
        digits.append(_ALPHABET[digit])
    return "".join(reversed(digits))
