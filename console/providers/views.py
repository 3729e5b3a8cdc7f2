"""Pages of pools: list, one pool with its prices, create and edit with a test before saving."""

from __future__ import annotations

from typing import Any

from django.contrib.messages import success
from django.db.models import Q
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from console.accounts.permissions import actor_of, permission_required
from console.errors import Conflict, ConsoleError, InputError, Missing
from console.providers.forms import EndpointLines, Line, NewPriceForm, PoolEditForm, PoolForm
from console.providers.models import Pool
from console.providers.selectors import (
    credential_of,
    pool_get,
    pool_state,
    pools_visible,
    price_current,
    prices_of_pool,
)
from console.providers.services import pool_create, pool_test, pool_update, price_set
from console.providers.specs import PoolPatch, PoolSpec, PriceSpec
from console.specs import parse
from console.ui.edition import edition_of, keep_typed, unchanged
from console.ui.format import visible
from console.ui.http import UNPROCESSABLE, go_to, render_page
from console.ui.paging import page_of
from console.ui.service_errors import add_problems

SEARCH_MAX = 120
PRICES_SHOWN = 20


@require_safe
@permission_required("pools.read")
def list_view(request: HttpRequest) -> HttpResponse:
    search = request.GET.get("search", "").strip().replace("\0", "")[:SEARCH_MAX]
    pools = pools_visible(actor_of(request)).order_by("model", "name")
    if search:
        words = Q(name__icontains=search) | Q(model__icontains=search)
        pools = pools.filter(words | Q(endpoints__base_url__icontains=search)).distinct()
    page = page_of(request, pools)
    rows = [{"pool": pool, "price": price_current(pool)} for pool in page.rows]
    context = {"page": page, "rows": rows, "search": search}
    return render_page(request, "console/providers/list.html", context, part="list")


@require_safe
@permission_required("pools.read")
def detail_view(request: HttpRequest, pool_id: str) -> HttpResponse:
    pool = _get(request, pool_id)
    return _detail(request, pool, NewPriceForm(initial=_price_values(pool)))


def _detail(
    request: HttpRequest, pool: Pool, form: NewPriceForm, status: int = 200
) -> HttpResponse:
    context = {
        "pool": pool,
        "price": price_current(pool),
        "prices": prices_of_pool(pool.id)[:PRICES_SHOWN],
        "credential": credential_of(pool),
        "form": form,
    }
    template = "console/providers/detail.html"
    return render_page(request, template, context, part="prices", status=status)


def _price_values(pool: Pool) -> dict[str, int | None]:
    price = price_current(pool)
    if price is None:
        return {}
    return {
        "input_price": price.input_microusd_per_mtok,
        "output_price": price.output_microusd_per_mtok,
        "cached_price": price.cached_input_microusd_per_mtok,
    }


@require_http_methods(["GET", "HEAD", "POST"])
@permission_required("pools.write")
def price_view(request: HttpRequest, pool_id: str) -> HttpResponse:
    pool = _get(request, pool_id)
    if request.method != "POST":
        return _detail(request, pool, NewPriceForm(initial=_price_values(pool)))
    form = NewPriceForm(request.POST)
    if form.is_valid():
        try:
            price_set(actor_of(request), pool.id, parse(PriceSpec, form.price() or {}))
        except ConsoleError as error:
            add_problems(form, error)
        else:
            success(
                request,
                "Price in force from now on. Requests under way keep the one they began with",
            )
            return go_to(request, reverse("providers:detail", args=[pool.id]))
    return _detail(request, pool, form, UNPROCESSABLE)


@require_http_methods(["GET", "HEAD", "POST"])
@permission_required("pools.write")
def create_view(request: HttpRequest) -> HttpResponse:
    form = PoolForm(request.POST or None)
    lines = EndpointLines.from_post(request.POST)
    if request.method == "POST" and form.is_valid():
        try:
            pool = pool_create(actor_of(request), _spec(form, lines))
        except ConsoleError as error:
            _refuse(form, lines, error)
        else:
            success(request, f"Pool “{visible(pool.name)}” created")
            return go_to(request, reverse("providers:detail", args=[pool.id]))
    return _form_page(request, form, lines, None)


def _spec(form: PoolForm, lines: EndpointLines) -> PoolSpec:
    data = form.cleaned_data
    price = form.price()
    values = {
        "name": data["name"],
        "model": data["model"],
        "engine": data["engine"],
        "endpoints": lines.values,
        "price": price and parse(PriceSpec, price),
        "upstream_model": data["upstream_model"] or None,
        "max_output_tokens": data["max_output_tokens"],
        "credential": data["credential"] or None,
    }
    return parse(PoolSpec, values)


def _refuse(form: PoolForm | PoolEditForm, lines: EndpointLines, error: ConsoleError) -> None:
    """Problems of endpoints stand beside their line, the others beside their field."""
    rest = lines.take(error.problems)
    if rest or not error.problems:
        add_problems(form, InputError(error.detail, problems=rest))
    elif lines.errors:
        form.add_error(None, "An endpoint cannot be used; the reason stands beside it.")


@require_http_methods(["GET", "HEAD", "POST"])
@permission_required("pools.write")
def edit_view(request: HttpRequest, pool_id: str) -> HttpResponse:
    pool = _get(request, pool_id)
    form = PoolEditForm(request.POST or None, initial=_values(pool))
    posted = request.method == "POST"
    lines = EndpointLines.from_post(request.POST) if posted else _lines(pool)
    if posted and form.is_valid():
        try:
            _update(request, pool, form.cleaned_data, lines)
        except Conflict as error:
            _stale(form, lines, error, _get(request, pool_id))
        except ConsoleError as error:
            _refuse(form, lines, error)
        else:
            success(request, "Pool saved, in force at once")
            return go_to(request, reverse("providers:detail", args=[pool.id]))
    return _form_page(request, form, lines, pool)


def _stale(form: PoolEditForm, lines: EndpointLines, error: Conflict, newest: Pool) -> None:
    keep_typed(form, error, _values(newest))
    stored = _lines(newest)
    if stored.values != lines.values:
        words = "; ".join(
            f"{line.base_url} in {line.region or 'no region'}" for line in stored.filled
        )
        form.add_error(
            None, f"Endpoints stored now: {words}. Saving again replaces them with yours."
        )


def _update(request: HttpRequest, pool: Pool, data: dict[str, Any], lines: EndpointLines) -> None:
    values = {
        "name": data["name"],
        "endpoints": lines.values,
        "upstream_model": data["upstream_model"] or None,
        "max_output_tokens": data["max_output_tokens"],
        "enabled": data["enabled"],
    }
    # A blank secret keeps the stored one: leaving the field out says so.
    if data["credential"] or data["forget_credential"]:
        values["credential"] = data["credential"] or None
    patch = parse(PoolPatch, values)
    with unchanged(pools_visible(actor_of(request)), pool.id, pool_state, data["version"]):
        pool_update(actor_of(request), pool.id, patch)


def _values(pool: Pool) -> dict[str, Any]:
    return {
        "version": edition_of(pool_state(pool)),
        "name": pool.name,
        "upstream_model": pool.upstream_model,
        "max_output_tokens": pool.max_output_tokens,
        "enabled": pool.enabled,
    }


def _lines(pool: Pool) -> EndpointLines:
    return EndpointLines(Line(each.base_url, each.region) for each in pool.endpoints.all())


def _form_page(
    request: HttpRequest, form: PoolForm | PoolEditForm, lines: EndpointLines, pool: Pool | None
) -> HttpResponse:
    context = {
        "form": form,
        "lines": lines,
        "pool": pool,
        "credential": pool and credential_of(pool),
        "heading": "Edit pool" if pool else "Add a pool",
        "submit": "Save pool" if pool else "Create pool",
        "back_url": reverse("providers:detail", args=[pool.id])
        if pool
        else reverse("providers:list"),
        "test_url": _test_url(pool),
    }
    status = UNPROCESSABLE if form.errors else 200
    return render_page(request, "console/providers/form.html", context, part="form", status=status)


def _test_url(pool: Pool | None) -> str:
    return reverse("providers:test-saved", args=[pool.id]) if pool else reverse("providers:test")


@require_safe
@permission_required("pools.write")
def line_view(request: HttpRequest) -> HttpResponse:
    """One more blank line for an endpoint."""
    return render_page(request, "console/providers/_line.html", {"line": Line()})


@require_POST
@permission_required("pools.write")
def trial_view(request: HttpRequest, pool_id: str = "") -> HttpResponse:
    """Without `?endpoint=` the list of what will be tried; each line then asks for its own result."""
    pool = _get(request, pool_id) if pool_id else None
    form: PoolForm | PoolEditForm = PoolEditForm(request.POST) if pool else PoolForm(request.POST)
    lines = EndpointLines.from_post(request.POST)
    context: dict[str, Any] = {"form": form, "lines": lines, "test_url": _test_url(pool)}
    if not form.is_valid() or not lines.filled:
        return render_page(request, "console/providers/_test.html", context, status=UNPROCESSABLE)
    number = request.GET.get("endpoint", "")
    if number.isdigit() and int(number) < len(lines.filled):
        return _test_one(request, form, lines.filled[int(number)], pool)
    return render_page(request, "console/providers/_test.html", {**context, "started": True})


def _test_one(
    request: HttpRequest, form: PoolForm | PoolEditForm, line: Line, pool: Pool | None
) -> HttpResponse:
    context: dict[str, Any] = {"line": line}
    try:
        spec = _spec_of_test(form, EndpointLines([line]), pool)
        context["report"] = pool_test(actor_of(request), spec, pool.id if pool else None)[0]
    except ConsoleError as error:
        context["refused"] = error.problems[0].message if error.problems else error.detail
    return render_page(request, "console/providers/_report.html", context)


def _spec_of_test(
    form: PoolForm | PoolEditForm, lines: EndpointLines, pool: Pool | None
) -> PoolSpec:
    if isinstance(form, PoolForm):
        return _spec(form, lines)
    if pool is None:
        raise TypeError("The form of a stored pool needs the pool.")
    data = form.cleaned_data
    values = {
        "name": data["name"],
        "model": pool.model,
        "engine": pool.engine,
        "endpoints": lines.values,
        "upstream_model": data["upstream_model"] or None,
        "credential": data["credential"] or None,
    }
    return parse(PoolSpec, values)


def _get(request: HttpRequest, pool_id: str) -> Pool:
    try:
        return pool_get(actor_of(request), pool_id)
    except Missing:
        raise Http404 from None
