"""Keys that are no longer good, known to every worker within a second and without a new snapshot.

A revocation stops new requests; a stream that was admitted before goes on to its end.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from policies.schema import wire

if TYPE_CHECKING:
    from redis.asyncio import Redis

_HEX_CHARS: Final = 64
log: Final = logging.getLogger(__name__)


class Revocations:
    """Only ever grows while the process lives: Redis may forget, a worker does not.

    The set is small; a key that left the snapshot is unknown anyway.
    """

    __slots__ = ("_seen_ms", "digests")

    def __init__(self) -> None:
        self.digests: set[bytes] = set()
        self._seen_ms = 0

    def add(self, hexes: Iterable[str | bytes]) -> None:
        for text in hexes:
            digest = _digest(text)
            if digest is not None:
                self.digests.add(digest)

    async def poll(self, redis: Redis) -> None:
        """Revocations since the last poll, with a margin for clocks that differ."""
        margin_ms = 60_000
        floor = max(0, self._seen_ms - margin_ms)
        entries: Any = await redis.zrangebyscore(
            wire.REVOCATIONS_KEY, floor, "+inf", withscores=True
        )
        self.add(entry for entry, _ in entries)
        if entries:
            self._seen_ms = max(self._seen_ms, int(entries[-1][1]))


def _digest(text: str | bytes) -> bytes | None:
    if isinstance(text, bytes):
        text = text.decode("ascii", "replace")
    if len(text) != _HEX_CHARS:
        log.warning("a revocation that is no digest was ignored")
        return None
    try:
        return bytes.fromhex(text)
    except ValueError:
        return None
