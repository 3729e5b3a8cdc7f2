"""Reading budgets."""

from __future__ import annotations

from typing import Any

from django.db.models import Q, QuerySet

from console.accounts.permissions import visible_tenants
from console.actor import Actor
from console.budgets.models import Budget
from console.errors import Missing
from telemetry.hooks import BudgetSubject


def budgets_visible(actor: Actor) -> QuerySet[Budget]:
    """Those that bind now, newest first."""
    ids = visible_tenants(actor, "budgets.read")
    found = Budget.objects.filter(archived_at=None).order_by("-id")
    return found if ids is None else found.filter(tenant_id__in=ids)


def budget_get(actor: Actor, budget_id: str) -> Budget:
    budget = budgets_visible(actor).filter(pk=budget_id).first()
    if budget is None:
        raise Missing("No such budget.")
    return budget


def budgets_of_key(key_id: str, tenant_id: str) -> QuerySet[Budget]:
    """All that bind a request of this key: its own and its tenant's."""
    whole_tenant = Q(key=None, tenant_id=tenant_id)
    return Budget.objects.filter(Q(key_id=key_id) | whole_tenant, archived_at=None).order_by("id")


def budget_state(budget: Budget) -> dict[str, Any]:
    """As the API shows it and the audit log keeps it."""
    return {
        "id": budget.id,
        "name": budget.name,
        "scope": budget.scope,
        "subject": budget.subject,
        "tenant": budget.tenant_id,
        "limit_microusd": budget.limit_microusd,
        "window": str(budget.window),
        "timezone": budget.timezone,
        "mode": str(budget.mode),
        "archived_at": budget.archived_at.isoformat() if budget.archived_at else None,
    }


def budget_subject(budget_id: str) -> BudgetSubject | None:
    """Whose spending counts; asked by the ingest process when Redis lost a budget's state."""
    budget = Budget.objects.filter(pk=budget_id).only("tenant_id", "key_id").first()
    return None if budget is None else BudgetSubject(budget.scope, budget.subject)
