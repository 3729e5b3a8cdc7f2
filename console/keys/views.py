"""Pages of API keys: list, one key, create and rotate with the secret shown once, edit, revoke."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.conf import settings
from django.contrib.messages import success
from django.db.models import Q, QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from console.accounts.permissions import actor_of, permission_required
from console.budgets.selectors import budgets_of_key
from console.budgets.services import BudgetSpec
from console.budgets.usage import budget_uses
from console.errors import Conflict, ConsoleError, Missing
from console.keys.activity import Activity, activity_of, month_start
from console.keys.forms import DEFAULT_LIFE, KeyEditForm, KeyForm, RotateForm
from console.keys.models import ApiKey
from console.keys.selectors import key_condition, key_get, key_state, keys_visible
from console.keys.services import (
    IssuedKey,
    KeyLimits,
    KeyPatch,
    KeySpec,
    key_create,
    key_digests,
    key_revoke,
    key_rotate,
    key_update,
)
from console.keys.snippets import snippets
from console.providers.offer import model_names
from console.specs import parse
from console.tenants.models import TenantState
from console.tenants.selectors import tenants_visible
from console.ui.edition import edition_of, keep_typed, unchanged
from console.ui.format import number, visible
from console.ui.http import UNPROCESSABLE, go_to, render_page
from console.ui.paging import page_of
from console.ui.question import Question, answered, ask, ask_again
from console.ui.service_errors import add_problems

SEARCH_MAX = 120
TENANTS_MAX = 500
STATES = {"active": "Active", "expired": "Expired", "revoked": "Revoked", "suspended": "Suspended"}
_NAMES = {
    "/rate_limits": "requests_per_minute",
    "/expires_at": "expires_on",
    "/budgets": "budget_limit",
}


@require_safe
@permission_required("keys.read")
def list_view(request: HttpRequest) -> HttpResponse:
    everything = keys_visible(actor_of(request))
    search = _clean(request, "search")
    state = _clean(request, "state")
    tenant = _clean(request, "tenant")
    page = page_of(request, _filtered(everything, search, state, tenant))
    context = {
        "page": page,
        "rows": _rows(page.rows),
        "search": search,
        "state": state,
        "states": STATES,
        "tenant": tenant,
        "filtered": bool(search or state in STATES or tenant),
        "all_count": everything.count(),
        "month": month_start(),
    }
    part = "short" if request.GET.get("short") == "1" else "list"
    return render_page(request, "console/keys/list.html", context, part=part)


def _clean(request: HttpRequest, name: str) -> str:
    return request.GET.get(name, "").strip().replace("\0", "")[:SEARCH_MAX]


def _filtered(keys: QuerySet[ApiKey], search: str, state: str, tenant: str) -> QuerySet[ApiKey]:
    """A whole key pasted into the search is never looked for: only its visible ends are stored."""
    if search:
        words = Q(name__icontains=search) | Q(tenant__name__icontains=search) | Q(pk=search)
        keys = keys.filter(words | Q(prefix__startswith=search[:12]) | Q(last4=search[-4:]))
    if state in STATES:
        keys = keys.filter(_in_state(state))
    return keys.filter(tenant_id=tenant) if tenant else keys


def _in_state(state: str) -> Q:
    """The same four words as `key_condition`, said to the database."""
    revoked, expired = Q(revoked_at__isnull=False), Q(expires_at__lte=timezone.now())
    suspended = Q(tenant__state=TenantState.SUSPENDED)
    if state == "revoked":
        return revoked
    if state == "expired":
        return expired & ~revoked
    alive = ~revoked & (Q(expires_at=None) | Q(expires_at__gt=timezone.now()))
    return alive & (suspended if state == "suspended" else ~suspended)


def _rows(keys: Iterable[ApiKey]) -> list[dict[str, Any]]:
    found = list(keys)
    activity = activity_of(key.id for key in found)
    return [
        {"key": key, "state": key_condition(key), "activity": activity.get(key.id, Activity())}
        for key in found
    ]


@require_safe
@permission_required("keys.read")
def detail_view(request: HttpRequest, key_id: str) -> HttpResponse:
    key = _get(request, key_id)
    context = {
        "key": key,
        "state": key_condition(key),
        "activity": activity_of([key.id]).get(key.id, Activity()),
        "month": month_start(),
        "digests": key_digests(key),
        "uses": budget_uses(budgets_of_key(key.id, key.tenant_id).select_related("tenant", "key")),
        "snippets": snippets(settings.ACE_GATEWAY_URL, _model_for(key)),
    }
    return render_page(request, "console/keys/detail.html", context)


def _model_for(key: ApiKey) -> str:
    """One the key may call and somebody serves, so that the snippet works as it stands."""
    served = model_names(ready=True)
    wanted = (
        served if key.allowed_models is None else [m for m in served if m in key.allowed_models]
    )
    return next(iter([*wanted, *(key.allowed_models or []), "your-model"]))


def _get(request: HttpRequest, key_id: str) -> ApiKey:
    try:
        return key_get(actor_of(request), key_id)
    except Missing:
        raise Http404 from None


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@permission_required("keys.write")
def create_view(request: HttpRequest) -> HttpResponse:
    form = _create_form(request)
    if request.method == "POST" and form.is_valid():
        try:
            issued = key_create(actor_of(request), _spec(form))
        except ConsoleError as error:
            add_problems(form, error, _NAMES)
        else:
            return _revealed(request, issued, "Key created")
    context = {
        "form": form,
        "heading": "Create key",
        "submit": "Create key",
        "back_url": reverse("keys:list"),
    }
    return _form_page(request, form, context)


def _create_form(request: HttpRequest) -> KeyForm:
    tenants = tenants_visible(actor_of(request)).filter(state=TenantState.ACTIVE).order_by("name")
    choices = [(tenant.id, visible(tenant.name)) for tenant in tenants[:TENANTS_MAX]]
    initial = {
        "tenant": request.GET.get("tenant", ""),
        "every_model": "yes",
        "expires_on": (timezone.now() + DEFAULT_LIFE).date(),
    }
    return KeyForm(
        request.POST or None, tenants=choices, known_models=model_names(), initial=initial
    )


def _spec(form: KeyForm) -> KeySpec:
    values = form.values() | {"tenant": form.cleaned_data["tenant"]}
    values["rate_limits"] = parse(KeyLimits, values["rate_limits"])
    budget = form.budget()
    values["budgets"] = (parse(BudgetSpec, budget),) if budget else ()
    return parse(KeySpec, values)


def _revealed(request: HttpRequest, issued: IssuedKey, heading: str) -> HttpResponse:
    """The only answer that ever holds the secret. The address becomes the key's own, so that a reload shows no form."""
    key = issued.key
    url = reverse("keys:detail", args=[key.id])
    context = {
        "heading": heading,
        "key": key,
        "plain": issued.plain,
        "url": url,
        "uses": budget_uses(budgets_of_key(key.id, key.tenant_id).select_related("tenant", "key")),
        "snippets": snippets(settings.ACE_GATEWAY_URL, _model_for(key), issued.plain),
    }
    response = render_page(request, "console/keys/revealed.html", context, part="revealed")
    response["HX-Replace-Url"] = url
    response["Cache-Control"] = "no-store"
    return response


def _form_page(
    request: HttpRequest, form: KeyForm | KeyEditForm, context: dict[str, Any]
) -> HttpResponse:
    status = UNPROCESSABLE if form.errors else 200
    return render_page(request, "console/keys/form.html", context, part="form", status=status)


@require_http_methods(["GET", "HEAD", "POST"])
@permission_required("keys.write")
def edit_view(request: HttpRequest, key_id: str) -> HttpResponse:
    key = _get(request, key_id)
    form = KeyEditForm(request.POST or None, known_models=_known(key), initial=_values(key))
    if request.method == "POST" and form.is_valid():
        try:
            _update(request, key, form)
        except Conflict as error:
            keep_typed(form, error, _values(_get(request, key_id)))
        except ConsoleError as error:
            add_problems(form, error, _NAMES)
        else:
            success(request, "Key saved, in force at once")
            return go_to(request, reverse("keys:detail", args=[key.id]))
    context = {
        "form": form,
        "heading": "Edit key",
        "submit": "Save key",
        "back_url": reverse("keys:detail", args=[key.id]),
    }
    return _form_page(request, form, context)


def _known(key: ApiKey) -> list[str]:
    return sorted({*model_names(), *(key.allowed_models or [])})


def _values(key: ApiKey) -> dict[str, Any]:
    return {
        "version": edition_of(key_state(key)),
        "name": key.name,
        "every_model": "yes" if key.allowed_models is None else "no",
        "models": key.allowed_models or [],
        "requests_per_minute": key.requests_per_minute,
        "tokens_per_minute": key.tokens_per_minute,
        "concurrency": key.concurrency,
        "expires_on": key.expires_at and key.expires_at.date(),
    }


def _update(request: HttpRequest, key: ApiKey, form: KeyEditForm) -> None:
    values = form.values()
    values["rate_limits"] = parse(KeyLimits, values["rate_limits"])
    if "expires_on" not in form.changed_data:
        # A key that was given an exact time keeps it, unless the day itself was changed.
        del values["expires_at"]
    patch = parse(KeyPatch, values)
    rows = ApiKey.objects.select_related("tenant")
    with unchanged(rows, key.id, key_state, form.cleaned_data["version"]):
        key_update(actor_of(request), key.id, patch)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@permission_required("keys.write")
def rotate_view(request: HttpRequest, key_id: str) -> HttpResponse:
    key = _get(request, key_id)
    form = RotateForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            issued = key_rotate(actor_of(request), key.id, int(form.cleaned_data["grace_s"]))
        except ConsoleError as error:
            add_problems(form, error)
        else:
            return _revealed(request, issued, "Key rotated")
    context = {"form": form, "key": key, "back_url": reverse("keys:detail", args=[key.id])}
    status = UNPROCESSABLE if form.errors else 200
    return render_page(request, "console/keys/rotate.html", context, part="form", status=status)


@require_http_methods(["GET", "HEAD", "POST"])
@permission_required("keys.write")
def revoke_view(request: HttpRequest, key_id: str) -> HttpResponse:
    key = _get(request, key_id)
    question = _revoke_question(key)
    if request.method != "POST":
        return ask(request, question)
    if not answered(request, question):
        return ask_again(request, question)
    key_revoke(actor_of(request), key.id)
    success(request, f"Key “{visible(key.name)}” revoked")
    return go_to(request, question.back_url)


def _revoke_question(key: ApiKey) -> Question:
    used = activity_of([key.id]).get(key.id, Activity())
    requests = number(used.month_requests)
    plural = "" if used.month_requests == 1 else "s"
    busy = (
        f"Billed for {requests} request{plural} this month." if used.last_bucket else "Never used."
    )
    return Question(
        title=f"Revoke {visible(key.name)}?",
        effect=f"{busy} Whoever uses it gets 401 on every worker within a second. This cannot be undone.",
        submit="Revoke key",
        back_url=reverse("keys:detail", args=[key.id]),
        back_label=visible(key.name),
        bad=True,
        typed=key.name,
    )
