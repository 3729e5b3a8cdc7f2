"""Two tabs, one object: a form carries the edition it was drawn from, and an older one is told, not obeyed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from django import forms
from django.db import transaction
from django.db.models import Model, QuerySet

from console.errors import Conflict

STALE: Final = "stale_edition"
AnyModel = TypeVar("AnyModel", bound=Model)


def edition_of(state: Mapping[str, Any]) -> str:
    """A short fingerprint of what the form showed."""
    text = json.dumps(state, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@contextmanager
def unchanged(
    rows: QuerySet[AnyModel], pk: str, state: Callable[[AnyModel], Mapping[str, Any]], edition: str
) -> Iterator[None]:
    """Lock the row and go on only if it still is what the form showed.

    The lock holds until the block ends, so that nobody slips in between the check and the change. A row that is gone
    is left to the service, which says so. Raises Conflict with code `stale_edition`.
    """
    with transaction.atomic():
        row = rows.select_for_update(of=("self",)).filter(pk=pk).first()
        if row is not None and edition_of(state(row)) != edition:
            raise Conflict(
                "Somebody changed this while you were editing. Nothing was saved; the newest values are below.",
                code=STALE,
            )
        yield


def edition_field() -> forms.CharField:
    return forms.CharField(max_length=16, required=False, widget=forms.HiddenInput())
