"""Every error of the management API is an RFC 9457 problem document, whoever raised it."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

import orjson
from django.core.exceptions import PermissionDenied
from django.db import DatabaseError
from django.http import Http404, HttpRequest, HttpResponse
from rest_framework import exceptions
from rest_framework.response import Response

from console.errors import Conflict, ConsoleError, InputError, Missing, Problem, Unavailable
from console.middleware import request_id_of
from console.rest.rendering import PROBLEM_TYPE

log = logging.getLogger(__name__)

_STATUS: Final[dict[type[ConsoleError], int]] = {
    InputError: 422,
    Missing: 404,
    Conflict: 409,
    Unavailable: 503,
}
_CODES: Final = {
    400: "malformed_request",
    401: "invalid_token",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    406: "not_acceptable",
    413: "body_too_large",
    415: "unsupported_media_type",
    429: "too_many_requests",
    500: "internal_error",
    503: "unavailable",
}


class BodyTooLarge(exceptions.APIException):
    status_code = 413
    default_detail = "The body is larger than a megabyte."


class Stale(exceptions.APIException):
    """If-Match names an edition that is no longer the current one."""

    status_code = 412
    default_code = "stale"


class Malformed(exceptions.APIException):
    """A query parameter or header that cannot be used."""

    status_code = 400

    def __init__(self, detail: str, code: str) -> None:
        super().__init__(detail, code)
        self.code = code


def problem(
    request: HttpRequest,
    status: int,
    detail: str,
    *,
    code: str = "",
    errors: Sequence[Problem] = (),
) -> dict[str, Any]:
    code = code or _CODES.get(status, "error")
    return {
        "type": f"/docs/errors/{code}",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "instance": request.path,
        "code": code,
        "request_id": request_id_of(request),
        "errors": [_error(each) for each in errors],
    }


def problem_page(request: HttpRequest, status: int, detail: str) -> HttpResponse:
    """For errors that come before or beside the views: unknown addresses, bad hosts, our own faults."""
    body = orjson.dumps(problem(request, status, detail))
    return HttpResponse(body, status=status, content_type=PROBLEM_TYPE)


def problem_response(error: Exception, context: Mapping[str, Any]) -> Response:
    """DRF's exception handler. What nobody expected is logged with its trace and told without it."""
    request = context["request"]._request  # noqa: SLF001 - Django's own request carries our id
    status, detail, code, errors = _described(error)
    document = problem(request, status, detail, code=code, errors=errors)
    headers = _headers(error)
    return Response(document, status=status, headers=headers, content_type=PROBLEM_TYPE)


Described = tuple[int, str, str, Sequence[Problem]]


def _described(error: Exception) -> Described:
    if isinstance(error, ConsoleError):
        status = next((s for kind, s in _STATUS.items() if isinstance(error, kind)), 400)
        return status, error.detail, error.code, error.problems
    if isinstance(error, Http404):
        return 404, "There is nothing at this address.", "", ()
    if isinstance(error, PermissionDenied):
        return 403, str(error) or "Your role may not do this.", "", ()
    if isinstance(error, exceptions.APIException):
        return error.status_code, str(error.detail), _api_code(error), ()
    if isinstance(error, DatabaseError):
        log.error("management API: database error", exc_info=error)
        return 503, "The database cannot do this now. Nothing was changed.", "", ()
    log.error("management API: unexpected error", exc_info=error)
    return 500, "Something went wrong on our side. Nothing was changed.", "", ()


def _api_code(error: exceptions.APIException) -> str:
    if isinstance(error, Malformed):
        return error.code
    if isinstance(error, Stale):
        return "stale"
    return ""


def _headers(error: Exception) -> dict[str, str]:
    if isinstance(error, exceptions.NotAuthenticated | exceptions.AuthenticationFailed):
        return {"WWW-Authenticate": 'Bearer realm="ACE management API"'}
    return {}


def _error(each: Problem) -> dict[str, str]:
    found = {"pointer": each.pointer, "message": each.message, "code": each.code}
    return {**found, "scope": each.scope} if each.scope else found
