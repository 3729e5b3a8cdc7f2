"""Lists by cursor: a page is found by the last id of the one before, so it costs the same wherever it lies."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from typing import Any, Final, TypeVar

from django.db.models import Model, QuerySet
from rest_framework.request import Request

from console.rest.problems import Malformed

DEFAULT_LIMIT: Final = 50
MAX_LIMIT: Final = 200
QUERY: Final = frozenset({"cursor", "limit"})
_ID: Final = re.compile(r"[a-z]+_[0-9A-Z]{26}")

Row = TypeVar("Row", bound=Model)


def page(
    request: Request, rows: QuerySet[Row], show: Callable[[Row], dict[str, Any]]
) -> dict[str, Any]:
    """`{items, next_cursor}`, newest first. One row more than asked for tells whether there is another page."""
    limit = _limit(request.query_params.get("limit", ""))
    after = _position(request.query_params.get("cursor", ""))
    if after:
        rows = rows.filter(pk__lt=after)
    found = list(rows[: limit + 1])
    more = len(found) > limit
    items = [show(row) for row in found[:limit]]
    return {"items": items, "next_cursor": _cursor(str(found[limit - 1].pk)) if more else None}


def _limit(text: str) -> int:
    if not text:
        return DEFAULT_LIMIT
    if not (text.isascii() and text.isdecimal()) or not 1 <= int(text[:9]) <= MAX_LIMIT:
        raise Malformed(f"`limit` must be a number from 1 to {MAX_LIMIT}.", "invalid_limit")
    return int(text)


def _position(cursor: str) -> str:
    if not cursor:
        return ""
    try:
        position = base64.urlsafe_b64decode(cursor.encode("ascii")).decode("ascii")
    except (ValueError, binascii.Error):
        position = ""
    if not _ID.fullmatch(position):
        raise Malformed("`cursor` is not one that this API gave.", "invalid_cursor")
    return position


def _cursor(position: str) -> str:
    return base64.urlsafe_b64encode(position.encode()).decode()
