"""Changing budgets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from django.db import transaction
from django.utils import timezone
from pydantic import AfterValidator, Field

from console.actor import Actor
from console.audit.services import Change, Subject, entry_create
from console.budgets.models import Budget
from console.budgets.selectors import budget_state
from console.changes import announce
from console.errors import InputError, Missing
from console.specs import Name, Spec
from policies.schema.units import BudgetMode, BudgetWindow, Identifier, MicroUSD
from policies.schema.window import time_zones


def _zone(name: str) -> str:
    if name not in time_zones():
        raise ValueError("is not an IANA time zone")
    return name


class BudgetSpec(Spec):
    limit_microusd: MicroUSD
    """Millionths of a US dollar. 0 refuses everything."""
    window: BudgetWindow
    mode: BudgetMode = "hard"
    name: Name = "budget"
    timezone: Annotated[str, Field(max_length=64), AfterValidator(_zone)] = "UTC"
    """IANA zone in which day, week and month begin."""


class BudgetCreate(BudgetSpec):
    scope: Literal["tenant", "key"]
    subject: Identifier
    """Id of the tenant or key it binds."""


class BudgetPatch(Spec):
    """Only what is sent is changed. The window stays: another window is another budget."""

    limit_microusd: MicroUSD = 0
    mode: BudgetMode = "hard"
    name: Name = ""


@dataclass(frozen=True, slots=True)
class Owner:
    """Whom the budget binds: the whole tenant, or one key of it."""

    tenant_id: str
    key_id: str | None = None


def owner_find(scope: Literal["tenant", "key"], subject: str) -> Owner:
    """Raises InputError when there is no such tenant or key. The relation knows its model; we need not import it."""
    if scope == "tenant":
        found: Any = Budget.tenant.field.related_model._default_manager.filter(pk=subject)  # noqa: SLF001
        if found.exists():
            return Owner(subject)
    else:
        found = Budget.key.field.related_model._default_manager.filter(pk=subject)  # noqa: SLF001
        tenant_id = found.values_list("tenant_id", flat=True).first()
        if tenant_id:
            return Owner(str(tenant_id), subject)
    raise InputError.at("/subject", f"There is no such {scope}.", "unknown")


@transaction.atomic
def budget_create(actor: Actor, spec: BudgetSpec, owner: Owner) -> Budget:
    budget = budget_insert(actor, spec, owner)
    announce(actor, f"budget {budget.name} created")
    return budget


def budget_insert(actor: Actor, spec: BudgetSpec, owner: Owner) -> Budget:
    """For a service that creates more at once and announces in the end."""
    budget = Budget.objects.create(
        name=spec.name,
        tenant_id=owner.tenant_id,
        key_id=owner.key_id,
        limit_microusd=spec.limit_microusd,
        window=spec.window,
        timezone=spec.timezone,
        mode=spec.mode,
    )
    change = Change(after=budget_state(budget))
    entry_create(actor, "budget_create", _subject(budget), change)
    return budget


@transaction.atomic
def budget_update(actor: Actor, budget_id: str, patch: BudgetPatch) -> Budget:
    """Raises Missing for a budget that is unknown or archived."""
    budget = _lock(budget_id)
    before = budget_state(budget)
    for name in patch.model_fields_set:
        setattr(budget, name, getattr(patch, name))
    return _finish(actor, "budget_update", budget, before)


@transaction.atomic
def budget_archive(actor: Actor, budget_id: str, reason: str = "") -> Budget:
    """It binds no more; its id stays, so that past refusals can be explained."""
    budget = _lock(budget_id)
    before = budget_state(budget)
    budget.archived_at = timezone.now()
    return _finish(actor, "budget_archive", budget, before, reason)


def _finish(
    actor: Actor, action: str, budget: Budget, before: dict[str, Any], reason: str = ""
) -> Budget:
    after = budget_state(budget)
    if after == before:
        return budget
    budget.save()
    entry_create(actor, action, _subject(budget), Change(before, after, reason))
    announce(actor, f"budget {budget.name} changed")
    return budget


def _lock(budget_id: str) -> Budget:
    budget = Budget.objects.select_for_update().filter(pk=budget_id, archived_at=None).first()
    if budget is None:
        raise Missing("No such budget.")
    return budget


def _subject(budget: Budget) -> Subject:
    return Subject("budget", budget.id, budget.tenant_id)
