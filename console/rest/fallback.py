"""Errors outside the views: a problem document under /api/, a page elsewhere."""

from __future__ import annotations

from typing import Final

from django.http import HttpRequest, HttpResponse
from django.template import TemplateDoesNotExist
from django.template.loader import render_to_string

from console.middleware import request_id_of
from console.rest.problems import problem_page

_WORDS: Final = {
    400: "The request cannot be understood.",
    403: "You may not do this.",
    404: "There is nothing at this address.",
    500: "Something went wrong on our side.",
}


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    return _answer(request, 400)


def forbidden(request: HttpRequest, exception: Exception) -> HttpResponse:
    return _answer(request, 403)


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    return _answer(request, 404)


def server_error(request: HttpRequest) -> HttpResponse:
    return _answer(request, 500)


def _answer(request: HttpRequest, status: int) -> HttpResponse:
    words = _WORDS[status]
    if request.path.startswith("/api/"):
        return problem_page(request, status, words)
    context = {"status": status, "words": words, "request_id": request_id_of(request)}
    try:
        body: str = render_to_string(f"{status}.html", context)
    except TemplateDoesNotExist:
        body = f"{status} {words} ({context['request_id']})"
    return HttpResponse(body, status=status)
