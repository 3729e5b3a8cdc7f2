"""Envelope encryption of provider keys: each has a data key of its own, wrapped by the installation's key.

The pool's id is bound into both layers, so a ciphertext copied to another row opens nothing. A copy of the database
without the installation's secret file is worthless.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

_NONCE_BYTES: Final = 12
_KEY_BYTES: Final = 32
_INFO: Final = b"ace provider credentials 1"


class VaultError(Exception):
    """The credential cannot be opened: another secret file, or a row that was tampered with."""


@dataclass(frozen=True, slots=True)
class Envelope:
    wrapped_key: bytes
    ciphertext: bytes


def lock(plain: str, secret: bytes, pool_id: str) -> Envelope:
    data_key = AESGCM.generate_key(8 * _KEY_BYTES)
    return Envelope(
        _encrypt(_wrapping_key(secret), data_key, _bound(b"key", pool_id)),
        _encrypt(data_key, plain.encode(), _bound(b"credential", pool_id)),
    )


def unlock(envelope: Envelope, secret: bytes, pool_id: str) -> str:
    """Raises VaultError."""
    try:
        data_key = _decrypt(_wrapping_key(secret), envelope.wrapped_key, _bound(b"key", pool_id))
        return _decrypt(data_key, envelope.ciphertext, _bound(b"credential", pool_id)).decode()
    except InvalidTag:
        raise VaultError(
            f"The credential of {pool_id} cannot be opened with this installation's secret."
        ) from None


def _wrapping_key(secret: bytes) -> bytes:
    return HKDF(algorithm=hashes.SHA256(), length=_KEY_BYTES, salt=None, info=_INFO).derive(secret)


def _bound(layer: bytes, pool_id: str) -> bytes:
    return layer + b"\0" + pool_id.encode()


def _encrypt(key: bytes, plain: bytes, bound: bytes) -> bytes:
    nonce = os.urandom(_NONCE_BYTES)
    return nonce + AESGCM(key).encrypt(nonce, plain, bound)


def _decrypt(key: bytes, sealed: bytes, bound: bytes) -> bytes:
    return AESGCM(key).decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], bound)
