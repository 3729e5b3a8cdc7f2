"""Base of the management API's views."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, cast

from django.conf import settings
from django.http import HttpRequest
from rest_framework.exceptions import ParseError
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from console.actor import Actor
from console.rest.problems import Malformed
from console.rest.repeats import once


class ApiView(APIView):
    """`actions` maps each method to an action of `console.accounts.permissions`."""

    actions: ClassVar[dict[str, str]] = {}
    query: ClassVar[frozenset[str]] = frozenset()
    """Query parameters of GET; any other is refused, so that a mistyped filter is not taken for none."""

    @property
    def http_method_names_allowed(self) -> list[str]:
        return [name.upper() for name in self.http_method_names if hasattr(self, name)]

    @property
    def actor(self) -> Actor:
        return cast(Actor, self.request.user)

    def initialize_request(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Request:
        _take_in_chunks(request)
        return super().initialize_request(request, *args, **kwargs)

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        if request.method in self.http_method_names_allowed:
            _check_presence(request)
        for name in request.query_params:
            if name not in self.query or request.method not in ("GET", "HEAD"):
                raise Malformed(f"There is no query parameter {name[:60]!r}.", "unknown_parameter")
        for name, value in kwargs.items():
            if "\0" in str(value):
                raise Malformed(f"`{name}` holds a NUL character.", "invalid_identifier")

    def finalize_response(
        self, request: Request, response: Response, *args: Any, **kwargs: Any
    ) -> Response:
        found = super().finalize_response(request, response, *args, **kwargs)
        found.headers["Cache-Control"] = "no-store"
        return found

    def once(self, work: Callable[[], Response]) -> Response:
        """For every POST: honours Idempotency-Key."""
        return once(self.request, work)


def _take_in_chunks(request: HttpRequest) -> None:
    """A body that comes in chunks declares no length, which DRF takes for "no body"; the parser judges its size."""
    if "HTTP_TRANSFER_ENCODING" in request.META and not request.META.get("CONTENT_LENGTH"):
        limit: int = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
        body = request.read(limit + 1)
        request._body = body  # noqa: SLF001 - where Django itself keeps what was read
        request.META["CONTENT_LENGTH"] = str(len(body))


def _check_presence(request: Request) -> None:
    """A body nobody reads could say anything, and a change that says nothing is a mistake."""
    if request.method == "DELETE" and request.stream is not None:
        raise ParseError("DELETE takes no body.")
    if request.method in ("PATCH", "PUT") and request.stream is None:
        raise ParseError("The body must be a JSON object.")


def created(document: dict[str, Any]) -> Response:
    return Response(document, status=201)
