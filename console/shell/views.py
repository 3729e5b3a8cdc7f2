"""Fragments of the shell."""

from __future__ import annotations

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from console.ui.http import render_page


@require_safe
@login_required
def policy_chip_view(request: HttpRequest) -> HttpResponse:
    return render_page(request, "components/policy_chip.html", {})
