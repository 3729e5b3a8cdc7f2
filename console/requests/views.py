"""Pages of requests: the recent ones, and why one of them went where it went."""

from __future__ import annotations

import re
from typing import Any, Final

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_safe

from console.accounts.permissions import actor_of, permission_required
from console.errors import Missing
from console.requests.explain import Explained, mentioned
from console.requests.selectors import (
    ENDINGS,
    Asked,
    endpoints_by_id,
    requests_exist,
    requests_recent,
)
from console.spend.selectors import names_of, request_get
from console.studio.models import PolicyRevision
from console.ui.http import render_page

_WHOLE: Final = re.compile("[0-9]{1,18}")
_TEXT_MAX: Final = 128
ENDING_WORDS: Final = {
    "": "All",
    "ok": "Answered",
    "refused": "Refused",
    "failed": "Failed",
    "moved": "Rerouted",
}


@require_safe
@permission_required("requests.read")
def list_view(request: HttpRequest) -> HttpResponse:
    asked = _asked(request)
    if asked.search.startswith("req_") and request.headers.get("HX-Request") != "true":
        return HttpResponseRedirect(reverse("requests:detail", args=[asked.search]))
    actor = actor_of(request)
    recent = requests_recent(actor, asked)
    context = {
        "asked": asked,
        "recent": recent,
        "any": bool(recent.rows) or requests_exist(actor),
        "tenants": names_of({row.tenant_id for row in recent.rows}, "tenant"),
        "keys": names_of({row.key_id for row in recent.rows}, "key"),
        "endings": ENDING_WORDS.items(),
    }
    return render_page(request, "console/requests/list.html", context, part="list")


@require_safe
@permission_required("requests.read")
def detail_view(request: HttpRequest, request_id: str) -> HttpResponse:
    try:
        detail = request_get(actor_of(request), request_id.replace("\0", ""))
    except Missing as error:
        missing = {"request_id": request_id, "reason": error.detail}
        return render_page(request, "console/requests/missing.html", missing, status=404)
    record = detail.records[-1] if detail.records else None
    owner = record or detail.entries[0]
    revision = PolicyRevision.objects.filter(pk=owner.policy_revision).first()
    context: dict[str, Any] = {
        "explained": Explained(detail, endpoints_by_id(mentioned(detail)), revision),
        "detail": detail,
        "record": record,
        "tenant": names_of({owner.tenant_id}, "tenant").get(owner.tenant_id, owner.tenant_id),
        "key": names_of({owner.key_id}, "key").get(owner.key_id, owner.key_id),
        "owner": owner,
        "revision": revision,
    }
    return render_page(request, "console/requests/detail.html", context)


def _asked(request: HttpRequest) -> Asked:
    text = {
        name: str(value).replace("\0", "").strip()[:_TEXT_MAX]
        for name, value in request.GET.items()
    }
    before = text.get("before", "")
    ending = text.get("ending", "")
    return Asked(
        search=text.get("search", ""),
        ending=ending if ending in ENDINGS else "",
        tenant=text.get("tenant", ""),
        key=text.get("key", ""),
        model=text.get("model", ""),
        before=int(before) if _WHOLE.fullmatch(before) else None,
    )
