"""Who is calling: one HMAC and one dictionary look-up, and nothing else of the request is believed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Final, Generic, NamedTuple, TypeVar

from gateway.protocols.errors import Refused

_BLOCK_BYTES: Final = 64

Record = TypeVar("Record")


class Digester:
    """HMAC-SHA256 under the pepper with both padded-key blocks hashed beforehand.

    A request copies two states instead of starting two: 0.6 µs against 1.6 for `hmac.digest`.
    """

    __slots__ = ("_inner", "_outer")

    def __init__(self, pepper: bytes) -> None:
        key = hashlib.sha256(pepper).digest() if len(pepper) > _BLOCK_BYTES else pepper
        block = key.ljust(_BLOCK_BYTES, b"\0")
        self._inner = hashlib.sha256(bytes(byte ^ 0x36 for byte in block))
        self._outer = hashlib.sha256(bytes(byte ^ 0x5C for byte in block))

    def __call__(self, credential: bytes) -> bytes:
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(credential)
        outer.update(inner.digest())
        return outer.digest()


class Grant(NamedTuple, Generic[Record]):
    """One digest of one key. A rotated key's old digest ends at `not_after_ms`."""

    record: Record
    not_after_ms: int | None


class KeyRing(Generic[Record]):
    """The keys of one snapshot by digest."""

    __slots__ = ("_grants",)

    def __init__(self, grants: Iterable[tuple[bytes, Grant[Record]]]) -> None:
        self._grants = dict(grants)

    def __len__(self) -> int:
        return len(self._grants)

    def items(self) -> list[tuple[bytes, Record]]:
        return [(digest, grant.record) for digest, grant in self._grants.items()]

    def find(self, digest: bytes, now_ms: int) -> Record:
        """Raises Refused `invalid_api_key` or `key_expired`."""
        grant = self._grants.get(digest)
        if grant is None:
            raise Refused("invalid_api_key")
        if grant.not_after_ms is not None and now_ms >= grant.not_after_ms:
            raise Refused("key_expired")
        return grant.record
