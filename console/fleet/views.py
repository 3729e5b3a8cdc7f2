"""The live page: drawn once by the server, then kept up to date over `/ws/live/`."""

from __future__ import annotations

from typing import cast

from django.http import HttpRequest, HttpResponse
from django.utils.safestring import mark_safe
from django.views.decorators.http import require_safe

from console.accounts.models import User
from console.accounts.permissions import permission_required
from console.errors import Unavailable
from console.fleet.live import access_of, current_frame, render_regions
from console.ui.http import render_page


@require_safe
@permission_required("live.read")
def live_view(request: HttpRequest) -> HttpResponse:
    access = access_of(cast("User", request.user))
    trouble, regions = "", {}
    try:
        frame = current_frame(access)
    except Unavailable as error:
        frame, trouble = None, str(error)
    if frame is not None:
        regions = {
            name.removeprefix("live-"): mark_safe(html)  # noqa: S308 - templates made it
            for name, html in render_regions(frame).items()
        }
    context = {"frame": frame, "access": access, "regions": regions, "trouble": trouble}
    return render_page(request, "console/fleet/live.html", context)
