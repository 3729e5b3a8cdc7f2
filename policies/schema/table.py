"""The table of a skill's settings for its README and for the docs in the product."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from policies.schema.base import Merge, Ui


def field_table(model: type[BaseModel]) -> str:
    """Markdown: field, default, unit and limits, merge mode, meaning; in declared order."""
    return "\n".join(_lines(model))


def merge_words(info: FieldInfo) -> str:
    """How a narrower scope may change the field, in one or two words."""
    merge = note_of(info, Merge) or Merge()
    return f"tighten ({merge.stricter})" if merge.mode == "tighten" else merge.mode


def note_of(info: FieldInfo, kind: type[Any]) -> Any:
    """The annotation of `kind` (`Ui`, `Merge`) on a field, or None."""
    return next((note for note in info.metadata if isinstance(note, kind)), None)


def _lines(model: type[BaseModel]) -> Iterator[str]:
    yield "| field | default | limits | merge | meaning |"
    yield "|---|---|---|---|---|"
    for name, info in model.model_fields.items():
        meaning = (info.description or "").replace("|", "\\|")
        yield f"| `{name}` | {_default(info)} | {_limits(info)} | {merge_words(info)} | {meaning} |"


def _default(info: FieldInfo) -> str:
    if info.default is None:
        return "not set"
    text = orjson.dumps(info.default).decode().replace(",", ", ")
    return f"`{text}`"


def _limits(info: FieldInfo) -> str:
    low, high = _bound(info, "ge"), _bound(info, "le")
    ui = note_of(info, Ui)
    unit = f" {ui.unit}" if ui is not None and ui.unit else ""
    if low is None and high is None:
        return unit.strip()
    return f"{'' if low is None else low}–{'' if high is None else high}{unit}"


def _bound(info: FieldInfo, name: str) -> Any:
    """The tightest wins: a field may narrow the limits of its type."""
    found = [getattr(note, name) for note in info.metadata if getattr(note, name, None) is not None]
    return None if not found else (max(found) if name == "ge" else min(found))
