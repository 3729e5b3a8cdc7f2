"""Management API: budgets."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from console.budgets import selectors, services
from console.budgets.models import Budget
from console.budgets.services import BudgetCreate, BudgetPatch
from console.budgets.usage import budget_uses
from console.rest import paging
from console.rest.schema import PAGE_QUERY, answers
from console.rest.view import ApiView, created
from console.specs import parse_json

_ACTIONS = {
    "GET": "budgets.read",
    "POST": "budgets.write",
    "PATCH": "budgets.write",
    "DELETE": "budgets.write",
}


class BudgetList(ApiView):
    actions: ClassVar = _ACTIONS
    query = paging.QUERY

    @extend_schema(operation_id="budgets_list", parameters=PAGE_QUERY, responses=answers(200))
    def get(self, request: Request) -> Response:
        """Budgets that bind now, newest first."""
        rows = selectors.budgets_visible(self.actor)
        return Response(paging.page(request, rows, selectors.budget_state))

    @extend_schema(operation_id="budget_create", request=BudgetCreate, responses=answers(201))
    def post(self, request: Request) -> Response:
        """Binds a tenant or one key. Takes effect at once."""
        return self.once(lambda: self._create(request))

    def _create(self, request: Request) -> Response:
        spec = parse_json(BudgetCreate, request.data)
        owner = services.owner_find(spec.scope, spec.subject)
        return created(selectors.budget_state(services.budget_create(self.actor, spec, owner)))


class BudgetDetail(ApiView):
    actions: ClassVar = _ACTIONS

    @extend_schema(operation_id="budget_get", responses=answers(200))
    def get(self, request: Request, budget_id: str) -> Response:
        """With what is used of it in the current window."""
        budget = selectors.budget_get(self.actor, budget_id)
        return Response({**selectors.budget_state(budget), **_use(budget)})

    @extend_schema(operation_id="budget_update", request=BudgetPatch, responses=answers(200))
    def patch(self, request: Request, budget_id: str) -> Response:
        """Changes what is sent; the window stays."""
        patch = parse_json(BudgetPatch, request.data)
        budget = services.budget_update(self.actor, budget_id, patch)
        return Response(selectors.budget_state(budget))

    @extend_schema(operation_id="budget_archive", responses=answers(200))
    def delete(self, request: Request, budget_id: str) -> Response:
        """It binds no more; its past stays explainable."""
        budget = services.budget_archive(self.actor, budget_id)
        return Response(selectors.budget_state(budget))


def _use(budget: Budget) -> dict[str, Any]:
    (use,) = budget_uses([budget])
    return {
        "spent_microusd": use.spent,
        "reserved_microusd": use.reserved,
        "remaining_microusd": use.left,
        "resets_at": use.resets_at.isoformat() if use.resets_at else None,
    }
