"""Requests as views receive them, and the two ways they answer: a whole page, or the part htmx asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render as django_render
from django.utils.cache import patch_vary_headers
from django.utils.http import url_has_allowed_host_and_scheme

UNPROCESSABLE = 422
CONFLICT = 409


def wants_part(request: HttpRequest) -> bool:
    """Whether htmx will swap the answer into one element; a history restore needs the whole page."""
    headers = request.headers
    if headers.get("HX-Request") != "true" or headers.get("HX-History-Restore-Request") == "true":
        return False
    return headers.get("HX-Request-Type", "partial") == "partial"


def render_page(
    request: HttpRequest,
    template: str,
    context: Mapping[str, Any],
    *,
    part: str | None = None,
    status: int = 200,
) -> HttpResponse:
    """The template, or its `#part` (a `{% partialdef %}`) when htmx asks for one.

    One template for both, so that the page and its fragments cannot drift apart.
    """
    name = f"{template}#{part}" if part and wants_part(request) else template
    response = django_render(request, name, dict(context), status=status)
    patch_vary_headers(response, ["HX-Request", "HX-Request-Type"])
    return response


def go_to(request: HttpRequest, url: str) -> HttpResponse:
    """Leave for another page after a form was saved, with or without htmx."""
    if request.headers.get("HX-Request") != "true":
        return HttpResponseRedirect(url)
    response = HttpResponse(status=204)
    response["HX-Redirect"] = url
    return response


def safe_next(request: HttpRequest, fallback: str) -> str:
    """`?next=` if it stays on this host, else `fallback`: no open redirect."""
    wanted = request.POST.get("next") or request.GET.get("next") or ""
    allowed = url_has_allowed_host_and_scheme(
        wanted, allowed_hosts={request.get_host()}, require_https=request.is_secure()
    )
    return wanted if wanted and allowed else fallback
