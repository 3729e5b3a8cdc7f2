"""Pages of spend: figures, chart and table, the ledger rows behind them, and their export."""

from __future__ import annotations

from typing import Any, Final, cast, get_args
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.utils import timezone
from django.views.decorators.http import require_safe

from console.accounts.permissions import actor_of, permission_required
from console.spend import selectors
from console.spend.export import csv_lines
from console.spend.period import COMMON_ZONES, PRESETS, Period, period_of
from console.spend.report import freshness, spend_report
from console.spend.selectors import Group, Only
from console.ui.http import render_page
from console.ui.paging import page_of

GROUPS: Final = get_args(Group)
_ID_MAX: Final = 128


@require_safe
@permission_required("usage.read")
def home_view(request: HttpRequest) -> HttpResponse:
    actor, now = actor_of(request), timezone.now()
    period, group, only = _asked(request)
    report = spend_report(actor, period, group, only)
    context = {
        **_common(request, period, group, only),
        "report": report,
        "freshness": freshness(report.as_of, now),
        "unpriced": selectors.refused_unpriced(actor, period.begin, period.end),
        "as_table": request.GET.get("view") == "table",
    }
    return render_page(request, "console/spend/home.html", context, part="report")


@require_safe
@permission_required("usage.read")
def ledger_view(request: HttpRequest) -> HttpResponse:
    """The rows that the figures of the same period are the sum of."""
    actor, now = actor_of(request), timezone.now()
    period, group, only = _asked(request)
    page = page_of(request, selectors.ledger_rows(actor, period.begin, period.end, only))
    usage = selectors.usage_in(actor, period.begin, period.end, (), only)
    context = {
        **_common(request, period, group, only),
        "page": page,
        "tenants": selectors.names_of({row.tenant_id for row in page.rows}, "tenant"),
        "keys": selectors.names_of({row.key_id for row in page.rows}, "key"),
        "total": usage.total,
        "freshness": freshness(usage.as_of, now),
    }
    return render_page(request, "console/spend/ledger.html", context, part="list")


@require_safe
@permission_required("usage.read")
def export_view(request: HttpRequest) -> StreamingHttpResponse:
    """Streamed; `X-Row-Count` says how many rows there must be, so that a cut file is noticed."""
    actor = actor_of(request)
    period, _, only = _asked(request)
    rows = selectors.ledger_rows(actor, period.begin, period.end, only)
    tenants, keys = selectors.names_in_ledger(rows)
    lines = csv_lines(rows.iterator(chunk_size=1000), tenants, keys)
    response = StreamingHttpResponse(lines, content_type="text/csv; charset=utf-8")
    name = f"ledger-{period.first}-to-{period.last}.csv"
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    response["X-Row-Count"] = str(rows.count())
    return response


def _asked(request: HttpRequest) -> tuple[Period, Group, Only]:
    query = {name: str(text).replace("\0", "") for name, text in request.GET.items()}
    group = query.get("by", "tenant")
    names = ("tenant", "key", "model")
    only = Only(**{name: query.get(name, "").strip()[:_ID_MAX] for name in names})
    return (
        period_of(query, timezone.now()),
        cast(Group, group) if group in GROUPS else "tenant",
        only,
    )


def _common(request: HttpRequest, period: Period, group: Group, only: Only) -> dict[str, Any]:
    """What every spend page says of its period and its filters, and the query that keeps them."""
    actor = actor_of(request)
    query = {
        "period": period.preset,
        "zone": period.zone.key,
        **(
            {"from": str(period.first), "to": str(period.last)} if period.preset == "custom" else {}
        ),
        **only.chosen,
    }
    return {
        "period": period,
        "presets": PRESETS.items(),
        "zones": COMMON_ZONES,
        "group": group,
        "groups": GROUPS,
        "filters": [
            (name, selectors.name_seen(actor, value, cast(Group, name)), _without(request, name))
            for name, value in only.chosen.items()
        ],
        "query": urlencode(query),
    }


def _without(request: HttpRequest, name: str) -> str:
    left = request.GET.copy()
    for each in (name, "page"):
        left.pop(each, None)
    return f"{request.path}?{left.urlencode()}"
