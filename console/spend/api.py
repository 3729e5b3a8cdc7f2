"""Management API: usage and single requests."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from typing import ClassVar, Final, get_args

from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from console.rest.problems import Malformed
from console.rest.schema import answers
from console.rest.view import ApiView
from console.spend import selectors
from console.spend.selectors import Group

_GROUPS: Final = get_args(Group)


class UsageList(ApiView):
    actions: ClassVar = {"GET": "usage.read"}
    query = frozenset({"from", "to", "group_by"})

    @extend_schema(
        operation_id="usage_list",
        parameters=[
            OpenApiParameter(
                "from", OpenApiTypes.DATETIME, description="RFC 3339; 30 days before `to`."
            ),
            OpenApiParameter("to", OpenApiTypes.DATETIME, description="RFC 3339, exclusive; now."),
            OpenApiParameter("group_by", OpenApiTypes.STR, enum=list(_GROUPS)),
        ],
        responses=answers(200),
    )
    def get(self, request: Request) -> Response:
        """Sums of the ledger. `as_of`: everything before it is counted; null: nothing was ever read."""
        group = _group(request.query_params.get("group_by", "tenant"))
        begin, end = selectors.default_period(timezone.now())
        begin = _moment(request, "from") or begin
        end = _moment(request, "to") or end
        if begin >= end:
            raise Malformed("`from` must be before `to`.", "invalid_period")
        usage = selectors.usage_by(self.actor, begin, end, group)
        as_of = usage.as_of.isoformat() if usage.as_of else None
        return Response({"rows": selectors.usage_rows(usage, group), "as_of": as_of})


class RequestDetail(ApiView):
    actions: ClassVar = {"GET": "requests.read"}

    @extend_schema(operation_id="request_get", responses=answers(200))
    def get(self, request: Request, request_id: str) -> Response:
        """Who could have served it, who was left out and why, what was tried, and how its price came about."""
        detail = selectors.request_get(self.actor, request_id)
        return Response(selectors.request_state(detail))


def _group(text: str) -> Group:
    for name in _GROUPS:
        if text == name:
            return name  # type: ignore[no-any-return]
    raise Malformed(f"`group_by` must be one of {', '.join(_GROUPS)}.", "invalid_group_by")


def _moment(request: Request, name: str) -> datetime | None:
    """RFC 3339, a plain date (its first moment in UTC) or unix milliseconds."""
    text = request.query_params.get(name, "")
    if not text:
        return None
    try:
        return _parsed(text)
    except (ValueError, OverflowError):
        raise Malformed(f"`{name}` must be an RFC 3339 time.", "invalid_time") from None


def _parsed(text: str) -> datetime:
    if text.isascii() and text.isdecimal():
        return datetime.fromtimestamp(int(text) / 1000, UTC)
    if len(text) == len("2026-01-31"):
        return datetime.combine(date.fromisoformat(text), time(), UTC)
    found = datetime.fromisoformat(text.replace(" ", "+"))  # an unescaped + arrives as a space
    return found if found.tzinfo else found.replace(tzinfo=UTC)
