"""From an error of a service to messages beside the fields of a form."""

from __future__ import annotations

from collections.abc import Mapping

from django.forms import BaseForm

from console.errors import ConsoleError


def add_problems(
    form: BaseForm, error: ConsoleError, names: Mapping[str, str] | None = None
) -> None:
    """Put each problem beside its field. `names` maps JSON pointers to field names where they differ.

    A problem without a field of the form goes on top, so that none is ever lost.
    """
    if not error.problems:
        form.add_error(None, error.detail)
        return
    for problem in error.problems:
        form.add_error(_field(form, problem.pointer, names or {}), problem.message)


def _field(form: BaseForm, pointer: str, names: Mapping[str, str]) -> str | None:
    """`/geo_fence/allowed_regions/2` looks for the longest prefix that the form knows."""
    path = pointer
    while path:
        name = names.get(path, path.strip("/").replace("/", "_"))
        if name in form.fields:
            return name
        path = path.rpartition("/")[0]
    return None
