"""Pages of tenants: list, one tenant with its fence, create, rename, suspend and resume."""

from __future__ import annotations

from typing import Any

from django.contrib.messages import success
from django.db.models import Count, Q, QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe

from console.accounts.permissions import actor_of, can, permission_required
from console.errors import Conflict, ConsoleError, Missing
from console.providers.offer import region_counts
from console.specs import parse
from console.tenants.forms import FenceForm, TenantForm
from console.tenants.models import Tenant
from console.tenants.selectors import tenant_get, tenant_state, tenants_visible
from console.tenants.services import TenantPatch, TenantSpec, tenant_create, tenant_update
from console.ui.edition import edition_of, keep_typed, unchanged
from console.ui.format import number, visible
from console.ui.http import CONFLICT, UNPROCESSABLE, go_to, render_page
from console.ui.paging import page_of
from console.ui.question import Question, ask, ask_again
from console.ui.service_errors import add_problems
from policies.schema.snapshot import GeoFence

SEARCH_MAX = 120


@require_safe
@permission_required("tenants.read")
def list_view(request: HttpRequest) -> HttpResponse:
    search = request.GET.get("search", "").strip().replace("\0", "")[:SEARCH_MAX]
    rows = _counted(tenants_visible(actor_of(request)))
    if search:
        rows = rows.filter(Q(name__icontains=search) | Q(pk=search))
    context = {"page": page_of(request, rows), "search": search}
    return render_page(request, "console/tenants/list.html", context, part="list")


def _counted(tenants: QuerySet[Tenant]) -> QuerySet[Tenant]:
    live_keys = Q(keys__revoked_at=None)
    return tenants.annotate(
        key_count=Count("keys", filter=live_keys, distinct=True),
        budget_count=Count("budgets", filter=Q(budgets__archived_at=None), distinct=True),
    )


@require_safe
@permission_required("tenants.read")
def detail_view(request: HttpRequest, tenant_id: str) -> HttpResponse:
    tenant = _get(request, tenant_id)
    form = _fence_form(tenant) if can(request, "tenants.write") else None
    return _detail(request, tenant, form)


def _detail(
    request: HttpRequest,
    tenant: Tenant,
    form: FenceForm | None,
    *,
    saved: str = "",
    status: int = 200,
) -> HttpResponse:
    context = {"tenant": tenant, "form": form, "saved": saved}
    template = "console/tenants/detail.html"
    return render_page(request, template, context, part="fence", status=status)


def _get(request: HttpRequest, tenant_id: str) -> Tenant:
    """What the person may not see does not exist for them."""
    try:
        return tenant_get(actor_of(request), tenant_id)
    except Missing:
        raise Http404 from None


@require_http_methods(["GET", "HEAD", "POST"])
@permission_required("tenants.write")
def create_view(request: HttpRequest) -> HttpResponse:
    form = TenantForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            spec = parse(TenantSpec, {"name": form.cleaned_data["name"]})
            tenant = tenant_create(actor_of(request), spec)
        except ConsoleError as error:
            add_problems(form, error)
        else:
            success(request, f"Tenant “{visible(tenant.name)}” created")
            return go_to(request, reverse("tenants:detail", args=[tenant.id]))
    context = {
        "heading": "Create tenant",
        "submit": "Create tenant",
        "back_url": reverse("tenants:list"),
    }
    return _form_page(request, form, context)


@require_http_methods(["GET", "HEAD", "POST"])
@permission_required("tenants.write")
def edit_view(request: HttpRequest, tenant_id: str) -> HttpResponse:
    tenant = _get(request, tenant_id)
    back_url = reverse("tenants:detail", args=[tenant.id])
    form = TenantForm(request.POST or None, initial=_initial(tenant))
    if request.method == "POST" and form.is_valid():
        try:
            _change(
                request, tenant, form.cleaned_data["version"], {"name": form.cleaned_data["name"]}
            )
        except ConsoleError as error:
            _refuse(form, error, tenant)
        else:
            success(request, "Tenant renamed")
            return go_to(request, back_url)
    context = {"heading": "Rename tenant", "submit": "Save name", "back_url": back_url}
    return _form_page(request, form, context)


def _refuse(form: TenantForm, error: ConsoleError, tenant: Tenant) -> None:
    if isinstance(error, Conflict):
        tenant.refresh_from_db()
        keep_typed(form, error, _initial(tenant))
    else:
        add_problems(form, error)


def _initial(tenant: Tenant) -> dict[str, str]:
    return {"name": tenant.name, "version": edition_of(tenant_state(tenant))}


def _change(request: HttpRequest, tenant: Tenant, edition: str, values: dict[str, Any]) -> Tenant:
    patch = parse(TenantPatch, values)
    with unchanged(Tenant.objects.all(), tenant.id, tenant_state, edition):
        return tenant_update(actor_of(request), tenant.id, patch)


def _form_page(request: HttpRequest, form: TenantForm, context: dict[str, Any]) -> HttpResponse:
    status = UNPROCESSABLE if form.errors else 200
    template = "console/tenants/form.html"
    return render_page(request, template, {**context, "form": form}, part="form", status=status)


@require_http_methods(["GET", "HEAD", "POST"])
@permission_required("tenants.write")
def fence_view(request: HttpRequest, tenant_id: str) -> HttpResponse:
    tenant = _get(request, tenant_id)
    if request.method != "POST":
        return _detail(request, tenant, _fence_form(tenant))
    form = _fence_form(tenant, request.POST)
    if not form.is_valid():
        return _detail(request, tenant, form, status=UNPROCESSABLE)
    allowed = form.allowed()
    fence = None if allowed is None else GeoFence(allowed_regions=allowed)
    try:
        tenant = _change(request, tenant, form.cleaned_data["version"], {"geo_fence": fence})
    except ConsoleError as error:
        return _fence_refused(request, tenant, form, error)
    return _fence_saved(request, tenant)


def _fence_refused(
    request: HttpRequest, tenant: Tenant, form: FenceForm, error: ConsoleError
) -> HttpResponse:
    if not isinstance(error, Conflict):
        add_problems(form, error, {"/geo_fence": "more"})
        return _detail(request, tenant, form, status=UNPROCESSABLE)
    tenant.refresh_from_db()
    keep_typed(form, error, _fence_values(tenant))
    return _detail(request, tenant, form, status=CONFLICT)


def _fence_saved(request: HttpRequest, tenant: Tenant) -> HttpResponse:
    if request.headers.get("HX-Request") != "true":
        success(request, "Fence saved")
        return go_to(request, reverse("tenants:detail", args=[tenant.id]))
    return _detail(request, tenant, _fence_form(tenant), saved=_fence_effect(tenant))


def _fence_effect(tenant: Tenant) -> str:
    """How many endpoints are left, because a fence that leaves none refuses everything."""
    if tenant.allowed_regions is None:
        return "Requests may be answered in any region."
    inside = sum(region_counts().get(region, 0) for region in tenant.allowed_regions)
    if not inside:
        return "No endpoint stands inside it now: every request of this tenant is refused."
    return f"{number(inside)} endpoint{'s' if inside != 1 else ''} inside it now."


def _fence_form(tenant: Tenant, data: Any = None) -> FenceForm:
    known = {region: count for region, count in region_counts().items() if region}
    for region in tenant.allowed_regions or []:
        known.setdefault(region, 0)
    return FenceForm(data, known=known, initial=_fence_values(tenant))


def _fence_values(tenant: Tenant) -> dict[str, Any]:
    return {
        "version": edition_of(tenant_state(tenant)),
        "fenced": "no" if tenant.allowed_regions is None else "yes",
        "regions": tenant.allowed_regions or [],
    }


@require_http_methods(["GET", "HEAD", "POST"])
@permission_required("tenants.write")
def suspend_view(request: HttpRequest, tenant_id: str) -> HttpResponse:
    tenant = _get(request, tenant_id)
    live = tenant.keys.filter(revoked_at=None).count()
    question = Question(
        title=f"Suspend {visible(tenant.name)}?",
        effect=f"Its {number(live)} live key{'s' if live != 1 else ''} are refused with 401 on every worker "
        "within a second or two. Nothing is deleted; resuming brings them back.",
        submit="Suspend tenant",
        back_url=reverse("tenants:detail", args=[tenant.id]),
        back_label=visible(tenant.name),
        bad=True,
    )
    return _state_view(request, tenant, question, "suspended")


@require_http_methods(["GET", "HEAD", "POST"])
@permission_required("tenants.write")
def resume_view(request: HttpRequest, tenant_id: str) -> HttpResponse:
    tenant = _get(request, tenant_id)
    question = Question(
        title=f"Resume {visible(tenant.name)}?",
        effect="Its keys work again within a second or two, under the budgets and the fence they had.",
        submit="Resume tenant",
        back_url=reverse("tenants:detail", args=[tenant.id]),
        back_label=visible(tenant.name),
    )
    return _state_view(request, tenant, question, "active")


def _state_view(
    request: HttpRequest, tenant: Tenant, question: Question, state: str
) -> HttpResponse:
    if request.method != "POST":
        return ask(request, question)
    try:
        tenant_update(actor_of(request), tenant.id, parse(TenantPatch, {"state": state}))
    except ConsoleError as error:
        return ask_again(request, question, error.detail)
    success(
        request,
        f"Tenant “{visible(tenant.name)}” {'suspended' if state == 'suspended' else 'resumed'}",
    )
    return go_to(request, question.back_url)
