"""Fragments of the shell."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from console.ui.http import render_page


@require_safe
def policy_chip_view(request: HttpRequest) -> HttpResponse:
    """Asked for by a clock, so a session that ended is told here and throws nobody out of a form."""
    return render_page(request, "components/policy_chip.html", {})
