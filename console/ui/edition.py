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
from console.ui.format import visible
from console.ui.forms import ConsoleForm

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
                "Somebody changed this while you were editing. Nothing was saved; what you typed is kept.",
                code=STALE,
            )
        yield


def keep_typed(form: ConsoleForm, error: Conflict, stored: Mapping[str, Any]) -> None:
    """Make a stale form one that can be sent again: typed values stay, what is stored now stands beside them.

    `stored`: the values as the form would show them now, with their edition under `version`. The form must be valid.
    """
    data: Any = form.data
    form.data = (
        data.copy()
    )  # of a QueryDict too: it cannot be changed, and a plain dict would lose lists
    data = form.data
    data["version"] = stored["version"]
    form.headline = error.detail
    form.add_error(None, error.detail)
    for name, value in stored.items():
        field = form.fields[name]
        if name != "version" and field.has_changed(value, form[name].data):
            text = visible(_words(field, value))
            form.add_error(name, f"Stored now: {text}. Saving again replaces it with yours.")


def _words(field: forms.Field, value: Any) -> str:
    if isinstance(field, forms.BooleanField):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(value) or "none"
    if isinstance(field, forms.ChoiceField):
        return str(dict(field.choices).get(value, value))  # type: ignore[arg-type]
    return "empty" if value in (None, "") else str(field.prepare_value(value))


def edition_field() -> forms.CharField:
    return forms.CharField(max_length=16, required=False, widget=forms.HiddenInput())
