"""Every answer carries a request id; nothing a signed-in person sees is kept by a cache."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

from console.ids import new_id

GetResponse = Callable[[HttpRequest], HttpResponse]


class RequestIdMiddleware:
    """Ours alone: an id taken from the caller could be chosen to collide with another's in the audit log."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        request_id = new_id("req")
        request.META["ACE_REQUEST_ID"] = request_id
        response = self.get_response(request)
        response.headers["x-request-id"] = request_id
        return response


class PrivateCacheMiddleware:
    """Pages differ by person and by htmx header; static files are served before this one runs."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        response.headers.setdefault("Cache-Control", "no-store")
        response.headers.setdefault(
            "Permissions-Policy", "camera=(), geolocation=(), microphone=()"
        )
        return response


def request_id_of(request: HttpRequest) -> str:
    return str(request.META.get("ACE_REQUEST_ID", ""))
