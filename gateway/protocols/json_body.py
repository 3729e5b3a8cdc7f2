"""Reading a JSON body that somebody else wrote."""

from __future__ import annotations

import json
from typing import Any

import orjson

from gateway.protocols.control_fields import MAX_DEPTH, TooDeepError, check_depth, strip
from gateway.protocols.errors import Refused, invalid


def read_object(body: bytes) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The object in `body` without control fields, and the names that were removed. Raises Refused."""
    document = _parse(body)
    # Fewer brackets than the limit cannot nest beyond it; counting them is cheaper than walking.
    if body.count(b"{") + body.count(b"[") > MAX_DEPTH:
        _refuse_depth(document)
    stripped, keys = strip(document)
    # `":` follows every key of JSON text and nothing else, rare spellings apart: a difference is worth a closer look.
    # Nothing rests on it: what is sent on is our own serialisation, so a duplicate that slips through cannot be read
    # one way here and another way by the engine.
    if body.count(b'":') - body.count(b'\\":') != keys:
        _refuse_duplicates(body)
    return document, stripped


def _parse(body: bytes) -> dict[str, Any]:
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        # `msg` is the parser's own words and never holds text of the body.
        raise invalid(
            None, f"The request body is not valid JSON: {error.msg} at byte {error.pos}."
        ) from None
    if type(document) is not dict:
        raise invalid(None, "The request body must be a JSON object.")
    return document


def _refuse_depth(document: dict[str, Any]) -> None:
    try:
        check_depth(document)
    except TooDeepError:
        raise invalid(None, "The request body is nested too deeply.") from None


def _refuse_duplicates(body: bytes) -> None:
    """orjson cannot see duplicate keys; the standard library can, at ten times the price."""
    try:
        json.loads(body, object_pairs_hook=_unique)
    except (ValueError, RecursionError):
        raise invalid(None, "The request body is not valid JSON.") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) != len(pairs):
        seen: set[str] = set()
        name = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise Refused(
            "invalid_request",
            "The request body has an object with the same key twice.",
            param=name if len(name) <= 64 and name.isidentifier() else None,  # noqa: PLR2004
        )
    return document
