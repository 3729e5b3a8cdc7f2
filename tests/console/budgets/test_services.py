from __future__ import annotations

import pytest

from console.audit.models import AuditEntry
from console.budgets.models import Budget
from console.budgets.selectors import budget_subject, budgets_of_key
from console.budgets.services import (
    BudgetPatch,
    BudgetSpec,
    Owner,
    budget_archive,
    budget_create,
    budget_update,
    owner_find,
)
from console.errors import InputError, Missing
from console.specs import parse
from console.studio.inventory import inventory_read
from telemetry.hooks import BudgetSubject, hooks
from tests.console.core_support import ADMIN, day_budget, make_key, make_tenant

pytestmark = pytest.mark.django_db


def test_an_owner_is_found_or_named_as_unknown() -> None:
    key = make_key(make_tenant()).key
    assert owner_find("tenant", key.tenant_id) == Owner(key.tenant_id)
    assert owner_find("key", key.id) == Owner(key.tenant_id, key.id)
    for scope, subject in (("tenant", key.id), ("key", key.tenant_id)):
        with pytest.raises(InputError) as caught:
            owner_find(scope, subject)  # type: ignore[arg-type]
        assert caught.value.problems[0].pointer == "/subject"


def test_telemetry_learns_whom_a_budget_binds() -> None:
    key = make_key(make_tenant()).key
    whole = budget_create(ADMIN, day_budget(), Owner(key.tenant_id))
    one = budget_create(ADMIN, day_budget(), Owner(key.tenant_id, key.id))
    assert hooks.budget_lookup(whole.id) == BudgetSubject("tenant", key.tenant_id)
    assert budget_subject(one.id) == BudgetSubject("key", key.id)
    assert budget_subject("bud_X") is None


def test_an_archived_budget_binds_no_more_and_can_still_be_explained() -> None:
    key = make_key(make_tenant()).key
    budget = budget_create(ADMIN, day_budget(), Owner(key.tenant_id, key.id))
    assert [each.id for each in budgets_of_key(key.id, key.tenant_id)] == [budget.id]
    budget_archive(ADMIN, budget.id, "no longer needed")
    assert inventory_read().budgets == []
    assert not budgets_of_key(key.id, key.tenant_id).exists()
    assert budget_subject(budget.id) == BudgetSubject("key", key.id)
    with pytest.raises(Missing):
        budget_archive(ADMIN, budget.id)


def test_an_update_changes_what_was_sent_and_is_audited() -> None:
    budget = budget_create(ADMIN, day_budget(5), Owner(make_tenant().id))
    budget_update(ADMIN, budget.id, BudgetPatch(limit_microusd=0))
    found = Budget.objects.get()
    assert (found.limit_microusd, found.name, found.mode) == (0, "day", "hard")
    line = AuditEntry.objects.get(action="budget_update")
    assert ((line.before or {})["limit_microusd"], (line.after or {})["limit_microusd"]) == (5, 0)


@pytest.mark.parametrize(
    "fields",
    [
        {"timezone": "Mars/Olympus"},
        {"limit_microusd": 10**18},
        {"window": "year"},
        {"mode": "firm"},
    ],
    ids=["zone", "limit", "window", "mode"],
)
def test_a_budget_out_of_bounds_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(InputError):
        parse(BudgetSpec, {"limit_microusd": 1, "window": "day"} | fields)
