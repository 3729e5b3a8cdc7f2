"""Figures of the first page, each only over what the person may see."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from django.db.models import QuerySet, Sum
from django.urls import reverse
from django.utils import timezone

from console.accounts.permissions import reach, visible_tenants
from console.actor import Actor
from console.audit.models import AuditEntry
from console.audit.selectors import entries
from console.budgets.selectors import budgets_visible
from console.budgets.usage import budget_uses
from console.providers.selectors import pools_visible, price_current
from console.ui.format import duration, money, visible
from telemetry.models import UsageRollup

BUDGETS_LOOKED_AT = 200
NEAR = 0.80
AT_LIMIT = 0.95
CHANGES_SHOWN = 8


@dataclass(frozen=True, slots=True)
class Today:
    """Sums since midnight UTC."""

    since: datetime
    spent_microusd: int
    requests: int
    failed: int
    output_tokens: int
    by_hour: tuple[int, ...]
    """Micro-dollars of each hour so far."""

    @property
    def failed_ratio(self) -> float | None:
        """None: nothing was asked, so nothing can be said."""
        return self.failed / self.requests if self.requests else None


@dataclass(frozen=True, slots=True)
class Attention:
    tone: str
    title: str
    text: str
    url: str


def today(actor: Actor) -> Today:
    since = timezone.now().replace(hour=0, minute=0, second=0, microsecond=0)
    rows = _rollups(actor).filter(bucket_start__gte=since)
    sums = rows.aggregate(
        spent=Sum("billed_microusd"),
        requests=Sum("requests"),
        failed=Sum("failed_requests"),
        output=Sum("output_tokens"),
    )
    return Today(
        since,
        sums["spent"] or 0,
        sums["requests"] or 0,
        sums["failed"] or 0,
        sums["output"] or 0,
        _by_hour(rows),
    )


def _rollups(actor: Actor) -> QuerySet[UsageRollup]:
    ids = visible_tenants(actor, "usage.read")
    return (
        UsageRollup.objects.all() if ids is None else UsageRollup.objects.filter(tenant_id__in=ids)
    )


def _by_hour(rows: QuerySet[UsageRollup]) -> tuple[int, ...]:
    hours = [0] * (timezone.now().hour + 1)
    for start, spent in (
        rows.values_list("bucket_start").annotate(Sum("billed_microusd")).order_by()
    ):
        hours[min(start.hour, len(hours) - 1)] += spent
    return tuple(hours)


def attention(actor: Actor) -> list[Attention]:
    """Worst first. Empty: nothing that these rules watch is wrong."""
    found = [*_budgets(actor), *_pools(actor)]
    return sorted(found, key=lambda each: each.tone != "bad")


def _budgets(actor: Actor) -> Iterator[Attention]:
    now = timezone.now()
    budgets = budgets_visible(actor).select_related("tenant", "key")[:BUDGETS_LOOKED_AT]
    for use in budget_uses(budgets):
        if use.share < NEAR:
            continue
        limit = money(use.budget.limit_microusd)
        left = (
            f"; resets in {duration((use.resets_at - now).total_seconds())}"
            if use.resets_at
            else ""
        )
        yield Attention(
            "bad" if use.share >= AT_LIMIT else "warn",
            f"Budget {int(use.share * 100)} % used: {visible(use.budget.name)}",
            f"{money(use.spent)} of {limit}, {use.budget.mode}{left}",
            reverse("tenants:detail", args=[use.budget.tenant_id]),
        )


def _pools(actor: Actor) -> Iterator[Attention]:
    if reach(actor.role, "pools.read") is None:
        return
    for pool in pools_visible(actor).filter(enabled=True):
        url = reverse("providers:detail", args=[pool.id])
        if price_current(pool) is None:
            text = "It refuses work until it has one."
            yield Attention("bad", f"No price: {visible(pool.name)}", text, url)
        elif not pool.endpoints.all():
            text = f"Requests for {pool.model} have nowhere to go."
            yield Attention("warn", f"No endpoint: {visible(pool.name)}", text, url)


def changes(actor: Actor) -> QuerySet[AuditEntry] | None:
    """The newest lines of the audit log; None: not for this role."""
    if reach(actor.role, "audit.read") is None:
        return None
    return entries()[:CHANGES_SHOWN]
