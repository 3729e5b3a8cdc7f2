"""Error pages. Each says what failed, whether anything was saved, the next step and the id to look it up by."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.views.decorators.csrf import requires_csrf_token

from console.accounts.models import Role, User
from console.errors import Unavailable
from console.middleware import request_id_of
from console.rest import fallback
from console.shell.context import plain_shell
from console.ui.http import render_page, wants_part


@dataclass(frozen=True, slots=True)
class Refusal:
    permission: str
    verb: str
    granters: str


def not_permitted(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """403 in words: which permission is missing and who can grant it."""
    if _is_api(request):
        return fallback.forbidden(request, exception or Exception())
    if not request.user.is_authenticated:
        return _plain(request, 403, "You may not do this", ["Sign in first. Nothing was changed."])
    context = {"refusal": _refusal(request), "request_id": request_id_of(request)}
    response = render_page(request, "errors/forbidden.html", context, part="part", status=403)
    return _beside(request, response)


def _refusal(request: HttpRequest) -> Refusal:
    view: Any = request.resolver_match.func if request.resolver_match else None
    action = getattr(view, "ace_action", "")
    verb = "open this page" if request.method in {"GET", "HEAD"} else "do this"
    return Refusal(action.replace(".", ": ") or "unknown", verb, _granters())


def _granters() -> str:
    """Three names at most; the rest is a number."""
    admins = User.objects.filter(role=Role.ADMIN, is_active=True).order_by("username")
    names = list(admins.values_list("username", flat=True)[:3])
    more = admins.count() - len(names)
    return ", ".join(names) + (f" and {more} more" if more else "") or "nobody yet"


def csrf_refused(request: HttpRequest, reason: str = "") -> HttpResponse:
    """A form whose token does not match: an old tab, another sign-in, or another site."""
    lines = [
        "This form is out of date, or it was sent from another site. Nothing was changed.",
        "Go back, load the page again and repeat the step. Cookies must be allowed.",
    ]
    return _plain(request, 403, "The form was not accepted", lines)


@requires_csrf_token
def bad_request(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    if _is_api(request):
        return fallback.bad_request(request, exception or Exception())
    lines = ["The console could not read this request. Nothing was changed."]
    return _plain(request, 400, "This request makes no sense", lines)


@requires_csrf_token
def not_found(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """The same words for what does not exist and for what belongs to somebody else."""
    if _is_api(request):
        return fallback.not_found(request, exception or Exception())
    lines = [
        "It does not exist, or it is not yours to see. Check the address, or look for it in its list."
    ]
    return _plain(request, 404, "Nothing here", lines)


@requires_csrf_token
def server_error(request: HttpRequest) -> HttpResponse:
    """What we depend on being away is a 503 that passes; the rest is our fault."""
    if _is_api(request):
        return fallback.server_error(request)
    if isinstance(sys.exc_info()[1], OperationalError | InterfaceError | Unavailable):
        return unavailable(request)
    lines = [
        "The console failed while working on this. What was not confirmed was not saved.",
        "The gateway goes on serving with the policy it has. Tell an admin the id below.",
    ]
    return _plain(request, 500, "Something broke on our side", lines)


def unavailable(request: HttpRequest) -> HttpResponse:
    """503: the database is away. Needs neither session nor database itself."""
    lines = [
        "The console cannot reach its database right now. Nothing was changed.",
        "The gateway goes on serving from the snapshot it holds. This page works again by itself.",
    ]
    response = _plain(request, 503, "The console is not available", lines, retry=True)
    response["Retry-After"] = "5"
    return response


def _is_api(request: HttpRequest) -> bool:
    """Callers of the management API get problem documents."""
    return request.path.startswith("/api/")


def _plain(
    request: HttpRequest, status: int, title: str, lines: list[str], *, retry: bool = False
) -> HttpResponse:
    context = {
        "title": title,
        "lines": lines,
        "status": status,
        "retry": retry,
        "request": request,
        "request_id": request_id_of(request),
        "shell": plain_shell(request),
    }
    # Without context processors: they ask the session and the database, which may be what has failed.
    template = "errors/plain.html#part" if wants_part(request) else "errors/plain.html"
    return _beside(request, HttpResponse(render_to_string(template, context), status=status))


def _beside(request: HttpRequest, response: HttpResponse) -> HttpResponse:
    """Asked for by htmx, an error stands beside what it is about: a form keeps what was typed into it."""
    if wants_part(request):
        response["HX-Retarget"] = "#trouble"
        response["HX-Reswap"] = "innerHTML"
    return response
