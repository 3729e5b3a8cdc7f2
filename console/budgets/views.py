"""Pages of budgets: list, create, edit, archive."""

from __future__ import annotations

from typing import Any, Literal

from django.contrib.messages import success
from django.db.models import Q, QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe

from console.accounts.permissions import actor_of, permission_required
from console.budgets.forms import BudgetEditForm, BudgetForm
from console.budgets.models import Budget
from console.budgets.selectors import budget_get, budget_state, budgets_visible
from console.budgets.services import (
    BudgetPatch,
    BudgetSpec,
    budget_archive,
    budget_create,
    budget_update,
    owner_find,
)
from console.budgets.usage import budget_uses
from console.errors import Conflict, ConsoleError, Missing
from console.specs import parse
from console.tenants.selectors import tenants_visible
from console.ui.edition import edition_of, keep_typed, unchanged
from console.ui.format import money, visible
from console.ui.http import UNPROCESSABLE, go_to, render_page
from console.ui.paging import page_of
from console.ui.question import Question, ask, ask_again
from console.ui.service_errors import add_problems

SEARCH_MAX = 120
SCOPES = {"tenant": Q(key=None), "key": Q(key__isnull=False)}
SUBJECTS_MAX = 500
"""More would make a select nobody can use; the page of a tenant or key names it by itself."""


@require_safe
@permission_required("budgets.read")
def list_view(request: HttpRequest) -> HttpResponse:
    search = request.GET.get("search", "").strip().replace("\0", "")[:SEARCH_MAX]
    scope = request.GET.get("scope", "")
    everything = budgets_visible(actor_of(request)).select_related("tenant", "key")
    page = page_of(request, _filtered(everything, request, search, scope))
    context = {
        "page": page,
        "uses": budget_uses(page.rows),
        "search": search,
        "scope": scope,
        "filtered": bool(search or scope in SCOPES),
        "all_count": everything.count(),
    }
    short = request.GET.get("short") == "1"
    return render_page(
        request, "console/budgets/list.html", context, part="short" if short else "list"
    )


def _filtered(
    budgets: QuerySet[Budget], request: HttpRequest, search: str, scope: str
) -> QuerySet[Budget]:
    if search:
        words = Q(name__icontains=search) | Q(tenant__name__icontains=search)
        budgets = budgets.filter(words | Q(key__name__icontains=search))
    if scope in SCOPES:
        budgets = budgets.filter(SCOPES[scope])
    if tenant := request.GET.get("tenant", "").replace("\0", ""):
        budgets = budgets.filter(tenant_id=tenant)
    if key := request.GET.get("key", "").replace("\0", ""):
        budgets = budgets.filter(Q(key_id=key) | Q(key=None))
    return budgets


@require_http_methods(["GET", "HEAD", "POST"])
@permission_required("budgets.write")
def create_view(request: HttpRequest) -> HttpResponse:
    initial = {"subject": request.GET.get("key") or request.GET.get("tenant", "")}
    form = BudgetForm(request.POST or None, subjects=_subjects(request), initial=initial)
    if request.method == "POST" and form.is_valid():
        try:
            budget = _create(request, form.cleaned_data)
        except ConsoleError as error:
            add_problems(form, error)
        else:
            success(request, f"Budget “{visible(budget.name)}” created, in force at once")
            return go_to(request, _page_of_owner(budget))
    context = {
        "heading": "New budget",
        "submit": "Create budget",
        "back_url": reverse("budgets:list"),
    }
    return _form_page(request, form, context)


def _create(request: HttpRequest, data: dict[str, Any]) -> Budget:
    fields = ("name", "limit_microusd", "mode", "window", "timezone")
    spec = parse(BudgetSpec, {name: data[name] for name in fields})
    scope: Literal["tenant", "key"] = "key" if data["subject"].startswith("key_") else "tenant"
    owner = owner_find(scope, data["subject"])
    return budget_create(actor_of(request), spec, owner)


def _subjects(request: HttpRequest) -> list[tuple[str, str]]:
    """Tenants and their live keys; first the one that the page asks for."""
    asked = request.GET.get("tenant") or request.POST.get("tenant") or ""
    tenants = tenants_visible(actor_of(request)).order_by("name")
    if asked:
        tenants = tenants.filter(pk=asked)
    found: list[tuple[str, str]] = []
    for tenant in tenants.prefetch_related("keys")[:SUBJECTS_MAX]:
        name = visible(tenant.name)
        found.append((tenant.id, f"{name}, the whole tenant"))
        live: Any = tenant.keys
        found += [
            (key.id, f"{name}, key {visible(key.name)}")
            for key in live.all()
            if key.revoked_at is None
        ]
    return found[:SUBJECTS_MAX]


def _page_of_owner(budget: Budget) -> str:
    return reverse("tenants:detail", args=[budget.tenant_id])


@require_http_methods(["GET", "HEAD", "POST"])
@permission_required("budgets.write")
def edit_view(request: HttpRequest, budget_id: str) -> HttpResponse:
    budget = _get(request, budget_id)
    form = BudgetEditForm(request.POST or None, initial=_values(budget))
    if request.method == "POST" and form.is_valid():
        try:
            _update(request, budget, form.cleaned_data)
        except Conflict as error:
            keep_typed(form, error, _values(_get(request, budget_id)))
        except ConsoleError as error:
            add_problems(form, error)
        else:
            success(request, "Budget saved, in force at once")
            return go_to(request, reverse("budgets:list"))
    context = {
        "heading": "Edit budget",
        "submit": "Save budget",
        "back_url": reverse("budgets:list"),
        "use": budget_uses([budget])[0],
    }
    return _form_page(request, form, context)


def _update(request: HttpRequest, budget: Budget, data: dict[str, Any]) -> None:
    patch = parse(BudgetPatch, {name: data[name] for name in ("name", "limit_microusd", "mode")})
    with unchanged(Budget.objects.all(), budget.id, budget_state, data["version"]):
        budget_update(actor_of(request), budget.id, patch)


def _values(budget: Budget) -> dict[str, Any]:
    return {
        "version": edition_of(budget_state(budget)),
        "name": budget.name,
        "limit_microusd": budget.limit_microusd,
        "mode": budget.mode,
    }


def _form_page(request: HttpRequest, form: BudgetEditForm, context: dict[str, Any]) -> HttpResponse:
    status = UNPROCESSABLE if form.errors else 200
    template = "console/budgets/form.html"
    return render_page(request, template, {**context, "form": form}, part="form", status=status)


@require_http_methods(["GET", "HEAD", "POST"])
@permission_required("budgets.write")
def archive_view(request: HttpRequest, budget_id: str) -> HttpResponse:
    budget = _get(request, budget_id)
    limit = money(budget.limit_microusd)
    question = Question(
        title=f"Archive {visible(budget.name)}?",
        effect=f"Its limit of {limit} binds nobody from then on. What was spent under it stays in the ledger.",
        submit="Archive budget",
        back_url=reverse("budgets:list"),
        back_label="Budgets",
        bad=True,
    )
    if request.method != "POST":
        return ask(request, question)
    try:
        budget_archive(actor_of(request), budget.id)
    except ConsoleError as error:
        return ask_again(request, question, error.detail)
    success(request, f"Budget “{visible(budget.name)}” archived")
    return go_to(request, question.back_url)


def _get(request: HttpRequest, budget_id: str) -> Budget:
    try:
        return budget_get(actor_of(request), budget_id)
    except Missing:
        raise Http404 from None
