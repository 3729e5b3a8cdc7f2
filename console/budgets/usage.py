"""How much of a budget is gone: spent from the ledger's sums, reserved from the leases in Redis."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import cast

import redis
from django.db.models import Sum
from django.utils import timezone

from console.broker import client
from console.budgets.models import Budget
from policies.schema import wire
from policies.schema.units import BudgetWindow
from policies.schema.window import NEVER_MS, Window, window_at
from telemetry.models import UsageRollup


@dataclass(frozen=True, slots=True)
class BudgetUse:
    """One budget in its running window. Micro-dollars."""

    budget: Budget
    spent: int
    reserved: int | None
    """Held by workers for requests in flight; None: Redis cannot be asked."""
    resets_at: datetime | None
    """None: it never does."""

    @property
    def left(self) -> int:
        return max(0, self.budget.limit_microusd - self.spent - (self.reserved or 0))

    @property
    def share(self) -> float:
        """Spent part of the limit; a limit of 0 is used up."""
        limit = self.budget.limit_microusd
        return self.spent / limit if limit else 1.0


def budget_uses(budgets: Iterable[Budget]) -> list[BudgetUse]:
    """In the order given. One query for each kind of window, however many budgets there are."""
    now_ms = int(timezone.now().timestamp() * 1000)
    rows = [(budget, _window(budget, now_ms)) for budget in budgets]
    spent = _spent(rows)
    reserved = _reserved([(budget.id, window) for budget, window in rows])
    return [
        BudgetUse(budget, spent.get((budget.subject, window.start_ms), 0), held, _end(window))
        for (budget, window), held in zip(rows, reserved, strict=True)
    ]


def _window(budget: Budget, now_ms: int) -> Window:
    return window_at(cast(BudgetWindow, budget.window), budget.timezone, now_ms)


def _end(window: Window) -> datetime | None:
    return None if window.end_ms >= NEVER_MS else datetime.fromtimestamp(window.end_ms / 1000, UTC)


def _spent(rows: Sequence[tuple[Budget, Window]]) -> dict[tuple[str, int], int]:
    """By subject and start of the window.

    Exact: every zone's midnight falls on a quarter of an hour, as the sums' buckets do.
    """
    groups: dict[tuple[str, int], set[str]] = defaultdict(set)
    for budget, window in rows:
        groups[(f"{budget.scope}_id", window.start_ms)].add(budget.subject)
    found: dict[tuple[str, int], int] = {}
    for (column, start_ms), subjects in groups.items():
        start = datetime.fromtimestamp(start_ms / 1000, UTC)
        sums = UsageRollup.objects.filter(
            **{f"{column}__in": subjects, "bucket_start__gte": start}
        ).values_list(column)
        for subject, total in sums.annotate(total=Sum("billed_microusd")):
            found[(subject, start_ms)] = total
    return found


def _reserved(keys: Sequence[tuple[str, Window]]) -> list[int | None]:
    if not keys:
        return []
    pipeline = client().pipeline(transaction=False)
    for budget_id, window in keys:
        name = wire.BUDGET_KEY.format(budget_id=budget_id, window_start_ms=window.start_ms)
        pipeline.hgetall(name)
    try:
        found = pipeline.execute()
    except redis.RedisError:
        return [None] * len(keys)
    return [_held(fields) for fields in found]


def _held(fields: dict[bytes, bytes]) -> int:
    return sum(int(value) for name, value in fields.items() if name.startswith(b"h:"))
