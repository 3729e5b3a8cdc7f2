"""Bodies: one JSON object in UTF-8, no larger than a megabyte and not nested without end."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import IO, Any, Final

import orjson
from django.conf import settings
from rest_framework.exceptions import ParseError
from rest_framework.parsers import BaseParser

from console.rest.problems import BodyTooLarge

MAX_DEPTH: Final = 32


class StrictJSONParser(BaseParser):
    """orjson refuses what is no JSON: NaN, lone surrogates, integers beyond 64 bits, bytes that are not UTF-8."""

    media_type = "application/json"

    def parse(
        self,
        stream: IO[Any],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        limit: int = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
        body = stream.read(limit + 1)
        if len(body) > limit:
            raise BodyTooLarge
        try:
            document = orjson.loads(body)
        except orjson.JSONDecodeError as error:
            raise ParseError(f"The body is no JSON: {error.msg} (character {error.pos}).") from None
        if not isinstance(document, dict):
            raise ParseError("The body must be a JSON object.")
        if _too_deep(document):
            raise ParseError(f"The body is nested deeper than {MAX_DEPTH} levels.")
        json.loads(body, object_pairs_hook=_refuse_twins)
        return document


def _refuse_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The last of two equal keys would win without a word; orjson does not show that there were two."""
    document = dict(pairs)
    if len(document) < len(pairs):
        names = [name for name, _ in pairs]
        twin = next(name for name in names if names.count(name) > 1)
        raise ParseError(f"The body has {twin[:64]!r} twice in one object.")
    return document


def _too_deep(document: Any) -> bool:
    """Level by level: recursion is what a deep document attacks."""
    level = [document]
    for _ in range(MAX_DEPTH):
        level = [
            child
            for value in level
            if isinstance(value, dict | list)
            for child in (value.values() if isinstance(value, dict) else value)
        ]
        if not level:
            return False
    return True
