"""A small slice of every hard budget, leased before anybody asks, so that a worker cut off from Redis finds money.

The slice is a 64th of the limit, and never more than a 64th of what is left. It stays with an idle worker and over a
stop; whoever is short of the budget gets it back at once.
"""

from __future__ import annotations

import asyncio
from typing import Final

from gateway.limits.leases import BudgetTerms, Lease, LeaseBook
from gateway.limits.window import NEVER_MS, Window, window_at
from policies.schema.units import BudgetWindow

PARTS: Final = 64
AGAIN_NS: Final = 10_000_000_000
"""Until a slice that was not granted in full is asked for again."""
AT_ONCE: Final = 100
"""Slices asked for in one pass: a snapshot with many budgets must not fill the event loop."""
STRIDE: Final = 500
"""Leases looked at before others get the event loop."""


class Standby:
    """Which leases should hold a slice, and which have yet to get it."""

    def __init__(self, book: LeaseBook) -> None:
        self._book = book
        self._terms: tuple[BudgetTerms, ...] = ()
        self._valid_until_ms = 0

    def prepare(self, terms: tuple[BudgetTerms, ...]) -> None:
        """A snapshot came into force; `terms` are its hard budgets."""
        self._terms = terms
        self._valid_until_ms = 0

    async def refresh(self, now_ms: int) -> None:
        """Mark the leases of today's windows; when one of the windows ends, those of the next."""
        if now_ms < self._valid_until_ms:
            return
        windows: dict[tuple[BudgetWindow, str], Window] = {}
        marked: set[Lease] = set()
        for count, terms in enumerate(self._terms, 1):
            kind = terms.window, terms.timezone
            window = windows.get(kind)
            if window is None:
                window = windows[kind] = window_at(*kind, now_ms)
            lease = self._book.lease_in(terms, window)
            lease.standby = terms.limit // PARTS
            marked.add(lease)
            if count % STRIDE == 0:
                await asyncio.sleep(0)
        for lease in self._book.leases.values():
            if lease not in marked:
                lease.standby = 0
        self._valid_until_ms = min((w.end_ms for w in windows.values()), default=NEVER_MS)

    def short(self, now_ns: int) -> list[Lease]:
        """Leases that lack some of their slice and may ask for it now."""
        found: list[Lease] = []
        for lease in self._book.leases.values():
            if lease.free >= lease.standby or lease.pressed or now_ns < lease.standby_due_ns:
                continue
            lease.standby_due_ns = now_ns + (AGAIN_NS if lease.known else 0)
            found.append(lease)
            if len(found) == AT_ONCE:
                break
        return found
