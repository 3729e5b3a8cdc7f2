"""The first page."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from console.accounts.permissions import actor_of, permission_required
from console.overview.selectors import attention, changes, today
from console.ui.http import render_page


@require_safe
@permission_required("overview.read")
def home_view(request: HttpRequest) -> HttpResponse:
    actor = actor_of(request)
    context = {"today": today(actor), "attention": attention(actor), "changes": changes(actor)}
    return render_page(request, "console/overview/home.html", context)
