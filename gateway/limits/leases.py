"""Money as this worker holds it: slices of shared budgets, spent with integer arithmetic and no round trip.

A `Lease` is this slot's share of one budget in one window. `granted` is all it was ever given, `used` what it spent,
`held` what requests in flight may still cost; `free = granted - used - held` pays for new holds. A `Purse` is the
tuple of leases one key must satisfy together: all or none.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from gateway.limits import table as fields
from gateway.limits.table import LeaseTable
from gateway.limits.window import Window, window_at
from gateway.protocols.errors import Refused, budget_exceeded
from policies.schema.units import BudgetMode, BudgetWindow

HISTORY: Final = 512
"""Marks of (spool sequence, used) a lease remembers above the watermark."""


@dataclass(frozen=True, slots=True)
class BudgetTerms:
    """What the snapshot says of one budget."""

    id: str
    name: str
    limit: int
    window: BudgetWindow
    timezone: str
    mode: BudgetMode


class Lease:
    """Amounts in micro-dollars. `spent_by_all` and `held_by_all` are the installation's, as of the last answer."""

    __slots__ = (
        "_index",
        "_marks",
        "_table",
        "budget_id",
        "free",
        "granted",
        "held",
        "held_by_all",
        "known",
        "last_used_ns",
        "ledgered",
        "op",
        "pressed",
        "spent_by_all",
        "stale",
        "standby",
        "standby_due_ns",
        "terms",
        "used",
        "window",
    )

    def __init__(self, table: LeaseTable, terms: BudgetTerms, window: Window, index: int) -> None:
        self._table, self._index = table, index
        self.terms, self.window, self.budget_id = terms, window, terms.id
        self.granted = self.used = self.held = self.free = self.op = self.ledgered = 0
        self.spent_by_all = self.held_by_all = 0
        self.last_used_ns = self.standby = self.standby_due_ns = 0
        """`standby`: free money to keep while nobody is short of it; see `gateway.limits.standby`."""
        self.pressed = self.known = False
        self.stale = True
        """Something changed since Redis was last told."""
        self._marks: deque[tuple[int, int]] = deque(maxlen=HISTORY)

    def restore(self, granted: int, used: int, op: int, ledgered: int) -> None:
        self.granted, self.used, self.op, self.ledgered = granted, used, op, ledgered
        self.free = granted - used
        self.spent_by_all = used

    def take(self, hold: int) -> None:
        self.free -= hold
        self.held += hold

    def settle(self, hold: int, billed: int) -> None:
        """Turn a hold into spend. The table first: what is spent must not be forgotten."""
        self.held -= hold
        self.used += billed
        self._table.store(self._index, fields.USED, self.used)
        self.free += hold - billed
        self.stale = True

    def next_op(self) -> int:
        self.op += 1
        self._table.store(self._index, fields.OP, self.op)
        return self.op

    def grant(self, granted: int) -> None:
        self._table.store(self._index, fields.GRANTED, granted)
        self.free += granted - self.granted
        self.granted = granted

    def give_back(self, keep: int = 0) -> int:
        """Let go of what is free beyond `keep`; effective here at once, in Redis with the next call."""
        returned = max(self.free - keep, 0)
        if returned:
            self.grant(self.granted - returned)
            self.stale = True
        return returned

    def mark(self, seq: int) -> None:
        """Everything spent so far stands in the spool at or below `seq`."""
        if not self._marks or self._marks[-1][1] != self.used:
            self._marks.append((seq, self.used))

    def in_ledger(self, below: int) -> None:
        """What was spent at spool sequences under `below` is in the ledger, and so in the base Redis counts from."""
        known = self.ledgered
        for seq, used in self._marks:
            if seq < below and used > known:
                known = used
        if known != self.ledgered:
            self.ledgered, self.stale = known, True
            self._table.store(self._index, fields.LEDGERED, known)

    def adopt(self, granted: int, op: int) -> None:
        """Redis remembers more of this slot than the slot does: count all of it as spent and go on from there."""
        self.op = op
        self._table.store(self._index, fields.OP, op)
        self.grant(max(granted, self.granted))
        missing = self.free
        self.used += missing
        self._table.store(self._index, fields.USED, self.used)
        self.free = 0
        self.stale = True

    def drop(self) -> None:
        self._table.remove(self._index)

    def refusal(self) -> Refused:
        return budget_exceeded(
            self.terms.name,
            used_microusd=self.spent_by_all + self.held_by_all,
            limit_microusd=self.terms.limit,
            resets_at=self.window.resets_at,
        )


class Purse:
    """The leases that must pay together for one key's requests. Rolls into new windows by itself."""

    __slots__ = (
        "_book",
        "hard",
        "leases",
        "refilling",
        "soft",
        "terms",
        "valid_until_ms",
        "waiting",
    )

    def __init__(self, book: LeaseBook, terms: tuple[BudgetTerms, ...]) -> None:
        self._book, self.terms = book, terms
        self.leases: tuple[Lease, ...] = ()
        self.hard: tuple[Lease, ...] = ()
        self.valid_until_ms = 0
        self.waiting = self.refilling = False
        self.soft = any(each.mode == "soft" for each in terms)

    def current(self, now_ms: int) -> tuple[Lease, ...]:
        if now_ms >= self.valid_until_ms:
            self._roll(now_ms)
        return self.leases

    def _roll(self, now_ms: int) -> None:
        leases = tuple(self._book.lease(terms, now_ms) for terms in self.terms)
        self.leases, self.hard = leases, tuple(x for x in leases if x.terms.mode == "hard")
        self.valid_until_ms = min(lease.window.end_ms for lease in leases)

    def join(
        self, carried: tuple[Lease, ...], hold: int, now_ms: int, now_ns: int
    ) -> tuple[Lease, ...]:
        """Leases of a request under way: those that carry it, and now all of this purse, with money or without."""
        fresh = tuple(lease for lease in self.current(now_ms) if lease not in carried)
        for lease in fresh:
            lease.take(hold)
            lease.last_used_ns = now_ns
            lease.stale = True
        return carried + fresh

    def can_pay(self, hold: int) -> bool:
        """Whether every hard lease has `hold` free. Soft budgets never say no."""
        return all(lease.free >= hold for lease in self.hard)

    def take(self, hold: int, now_ns: int) -> tuple[Lease, ...]:
        """Hold `hold` in every lease; the caller has asked `can_pay`. Returns what must be settled."""
        leases = self.leases
        for lease in leases:
            lease.free -= hold
            lease.held += hold
            lease.last_used_ns = now_ns
            lease.stale = True
        return leases

    def refusal(self, hold: int, *, reachable: bool) -> Refused:
        """Names the budget that has least left; one that may have room is not called used up while nobody can ask."""
        short = [lease for lease in self.hard if lease.free < hold] or list(self.hard)
        worst = min(short, key=lambda x: x.terms.limit - x.spent_by_all - x.held_by_all)
        has_room = worst.spent_by_all + hold <= worst.terms.limit
        if not worst.known or (has_room and not reachable):
            return Refused("spend_unrecordable", "The budget's state cannot be read now.")
        return worst.refusal()

    def over_soft_limit(self) -> bool:
        return any(x.terms.mode == "soft" and x.spent_by_all > x.terms.limit for x in self.leases)


class LeaseBook:
    """All leases of this slot, by (budget, window)."""

    def __init__(self, table: LeaseTable) -> None:
        self._table = table
        self.in_force: Mapping[str, BudgetTerms] = {}
        """What the newest snapshot says. A request pinned to an older one must not bring old terms back."""
        self.leases: dict[tuple[str, int], Lease] = {}
        self._restored: dict[tuple[str, int], Lease] = {}
        for saved in table.saved():
            terms = BudgetTerms(saved.budget_id, saved.budget_id, 0, "total", "UTC", "hard")
            lease = Lease(table, terms, Window(saved.window_start_ms, 0), saved.record)
            lease.restore(saved.granted, saved.used, saved.op, saved.ledgered)
            key = saved.budget_id, saved.window_start_ms
            self.leases[key] = self._restored[key] = lease

    def lease(self, terms: BudgetTerms, now_ms: int) -> Lease:
        return self.lease_in(terms, window_at(terms.window, terms.timezone, now_ms))

    def lease_in(self, terms: BudgetTerms, window: Window) -> Lease:
        key = terms.id, window.start_ms
        newest = self.in_force.get(terms.id, terms)
        if (newest.window, newest.timezone) == (terms.window, terms.timezone):
            terms = newest
        lease = self.leases.get(key)
        if lease is None:
            index = self._table.add(terms.id, window.start_ms)
            lease = self.leases[key] = Lease(self._table, terms, window, index)
        else:
            # Restored leases know no terms, and a newer snapshot may have changed them.
            if terms.limit < lease.terms.limit:
                lease.give_back()
            lease.terms, lease.window = terms, window
        return lease

    def charge_recovered(self, budget_ids: Iterable[str], opened_at_ms: int, billed: int) -> None:
        """Spend of a request that died with the predecessor of this worker."""
        for budget_id in budget_ids:
            windows = [
                lease
                for (held_id, start_ms), lease in self.leases.items()
                if held_id == budget_id and start_ms <= opened_at_ms
            ]
            if windows:
                max(windows, key=lambda lease: lease.window.start_ms).settle(0, billed)

    def forget(self, lease: Lease) -> None:
        """A finished lease of a window that is over, all given back."""
        del self.leases[lease.budget_id, lease.window.start_ms]
        lease.drop()
