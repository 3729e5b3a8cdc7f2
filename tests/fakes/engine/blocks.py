"""The prefix cache: blocks of 16 tokens, named by a hash chain, kept in least-recently-used order.

A block that a running request holds is never evicted; what nobody holds stays cached until its room is needed.
Block names are opaque 64-bit numbers that differ between engines, as in real ones: they must not be recomputed outside.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import NamedTuple


class StoredBlocks(NamedTuple):
    """Blocks that became findable, a chain that continues `parent`."""

    hashes: list[int]
    parent: int | None
    tokens: list[int]
    lora: str | None
    salt: str


Stored = Callable[[StoredBlocks], None]
Removed = Callable[[list[int]], None]


class Hold(NamedTuple):
    """What one sequence occupies: the named blocks of its prompt and unnamed room for the rest and the answer."""

    names: list[int]
    found_tokens: int
    unnamed_blocks: int
    salt: str
    lora: str | None


class BlockPool:
    """Counts and names of the KV blocks of one engine."""

    def __init__(
        self, num_blocks: int, block_tokens: int, salt: str, stored: Stored, removed: Removed
    ) -> None:
        self.num_blocks = num_blocks
        self.block_tokens = block_tokens
        self._salt = salt
        self._stored = stored
        self._removed = removed
        self._users: dict[int, int] = {}
        self._idle: OrderedDict[int, None] = OrderedDict()
        self._unnamed = 0

    @property
    def used_blocks(self) -> int:
        return len(self._users) + self._unnamed

    @property
    def cached_blocks(self) -> int:
        return len(self._idle)

    @property
    def usage_ratio(self) -> float:
        return self.used_blocks / self.num_blocks

    def chain(self, tokens: Sequence[int], salt: str, lora: str | None) -> list[int]:
        """Names of the full blocks of `tokens`; other salts and adapters give other names."""
        size = self.block_tokens
        full = len(tokens) // size
        if not full:
            return []
        packed = array("I", tokens[: full * size]).tobytes()
        link = f"{self._salt}|{salt}|{lora or ''}".encode()
        names = []
        for start in range(0, full * size * 4, size * 4):
            link = blake2b(link + packed[start : start + size * 4], digest_size=8).digest()
            names.append(int.from_bytes(link, "little"))
        return names

    def take(
        self, tokens: Sequence[int], answer_tokens: int, salt: str, lora: str | None
    ) -> Hold | None:
        """Room for a prompt and its answer, or None when it must wait for others to finish."""
        size = self.block_tokens
        names = self.chain(tokens, salt, lora)
        found = self._found(names, (len(tokens) - 1) // size)
        unnamed = -(-(len(tokens) + answer_tokens) // size) - len(names)
        used = self.used_blocks + unnamed + sum(name not in self._users for name in names)
        if used > self.num_blocks:
            return None
        for name in names:
            self._idle.pop(name, None)
            self._users[name] = self._users.get(name, 0) + 1
        self._unnamed += unnamed
        self._evict()
        hold = Hold(names, found * size, unnamed, salt, lora)
        if found < len(names):
            self._tell_stored(tokens, names, found, hold)
        return hold

    def release(self, hold: Hold, tokens: Sequence[int]) -> None:
        """Give a hold back. Full blocks of prompt and answer (`tokens`) stay cached, newest first to be kept."""
        self._unnamed -= hold.unnamed_blocks
        for name in hold.names:
            self._users[name] -= 1
            if not self._users[name]:
                del self._users[name]
        names = self.chain(tokens, hold.salt, hold.lora)
        new = [name for name in names[len(hold.names) :] if not self._known(name)]
        for name in reversed(names):
            if name not in self._users:
                self._idle[name] = None
                self._idle.move_to_end(name)
        self._evict()
        if new:
            self._tell_stored(tokens, names, len(hold.names), hold)

    def clear(self) -> None:
        """Forget everything nobody uses, as /reset_prefix_cache does."""
        self._idle.clear()

    def _found(self, names: Sequence[int], findable: int) -> int:
        # One token must be computed to sample from, so a wholly cached prompt gives its last block back.
        found = 0
        for name in names[:findable]:
            if not self._known(name):
                break
            found += 1
        return found

    def _known(self, name: int) -> bool:
        return name in self._users or name in self._idle

    def _evict(self) -> None:
        gone = []
        while self._idle and self.used_blocks + len(self._idle) > self.num_blocks:
            gone.append(self._idle.popitem(last=False)[0])
        if gone:
            self._removed(gone)

    def _tell_stored(self, tokens: Sequence[int], names: list[int], start: int, hold: Hold) -> None:
        size = self.block_tokens
        parent = names[start - 1] if start else None
        covered = list(tokens[start * size : len(names) * size])
        self._stored(StoredBlocks(names[start:], parent, covered, hold.lora, hold.salt))
