"""Base of the management API's views."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, cast

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

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
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


def created(document: dict[str, Any]) -> Response:
    return Response(document, status=201)
