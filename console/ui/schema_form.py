"""A form out of a Pydantic model: no skill writes one by hand.

A field is *set here* or *inherited*, and that is a value of its own, apart from "no restriction" and from 0. The page
carries, beside each control, what it showed (`shown`) and what the document had (`base`), so that

- a control that somebody only typed into counts as set, with or without script;
- only what somebody changed is written: two people on different fields do not undo each other.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from django.http import QueryDict
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from console.ui.widgets import A_VALUE, NOT_SET, Control, NotReadable, control_of
from policies.schema.base import Ui
from policies.schema.table import merge_words, note_of

UNSET: Final = object()
"""Inherited: the document says nothing of the field."""

_INITIALS: Final = {
    name.lower(): name
    for name in ("PII", "TTL", "URL", "GPU", "ID", "ECC", "XID", "SLO", "CPU", "LoRA")
}
_UNIT_WORDS: Final = frozenset({"ms", "s", "c", "bytes", "tokens", "percent", "ratio", "microusd"})


@dataclass(frozen=True, slots=True)
class SchemaField:
    """One field of a model, as the page needs it."""

    name: str
    label: str
    help: str
    group: str
    merge: str
    """Merge mode in words: `override`, `tighten (subset)`, `union`, `locked`."""
    control: Control
    default: Any

    @property
    def merge_icon(self) -> str:
        return self.merge.partition(" ")[0]


@cache
def schema_fields(model: type[BaseModel]) -> tuple[SchemaField, ...]:
    """In declared order."""
    return tuple(_field(name, info) for name, info in model.model_fields.items())


def _field(name: str, info: FieldInfo) -> SchemaField:
    ui: Ui = note_of(info, Ui) or Ui()
    control = control_of(info)
    default = info.get_default(call_default_factory=True, validated_data={})
    return SchemaField(
        name=name,
        label=label_of(name, bool(control.unit)),
        help=info.description or "",
        group=ui.group,
        merge=merge_words(info),
        control=control,
        default=_json(default),
    )


def label_of(name: str, has_unit: bool = False) -> str:  # noqa: FBT001, FBT002
    """`base_open_ms` reads `Base open` where the unit stands beside the control."""
    words = name.split("_")
    if has_unit and len(words) > 1 and words[-1] in _UNIT_WORDS:
        words = words[:-1]
    named = [_INITIALS.get(word, word) for word in words]
    first = named[0]
    return " ".join([first if first in _INITIALS.values() else first.capitalize(), *named[1:]])


def _json(value: Any) -> Any:
    """As a document holds it: tuples become lists."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    return [_json(part) for part in value] if isinstance(value, tuple | list) else value


# ------------------------------------------------------------------------------------------ reading


@dataclass(frozen=True, slots=True)
class Entered:
    """What a post says of one field."""

    value: Any
    """JSON value, UNSET, or None where the texts were not readable."""
    texts: list[str]
    changed: bool
    """Whether it departs from what the document had when the page was drawn."""
    error: str = ""

    @property
    def is_set(self) -> bool:
        return self.value is not UNSET


def read(fields: Iterable[SchemaField], post: QueryDict) -> dict[str, Entered]:
    return {field.name: _read_field(field, post) for field in fields}


def _read_field(field: SchemaField, post: QueryDict) -> Entered:
    texts = post.getlist(f"value.{field.name}")
    choice = post.get(f"null.{field.name}", NOT_SET) if field.control.nullable else A_VALUE
    base = post.get(f"base.{field.name}", "")
    if not _counts_as_set(field.name, post, _shown(field.control, choice, texts)):
        return Entered(UNSET, texts, changed=base != state_text(field.control, UNSET))
    try:
        value = None if choice == NOT_SET else field.control.decode(texts)
    except NotReadable as error:
        return Entered(None, texts, changed=True, error=str(error))
    return Entered(value, texts, changed=base != state_text(field.control, value))


def _counts_as_set(name: str, post: QueryDict, given: str) -> bool:
    """The switch decides; where it was and stays off, a touched control does."""
    if post.get(f"set.{name}") == "1":
        return True
    was_on = post.get(f"on.{name}") == "1"
    shown = post.get(f"shown.{name}")
    return not was_on and shown is not None and shown != given


def _shown(control: Control, choice: str, texts: list[str]) -> str:
    """Browsers send line breaks as CRLF and leave empty texts in; both mean nothing."""
    if choice == NOT_SET:
        return json.dumps([NOT_SET])
    if control.kind == "words":
        texts = control.words(texts)
    clean = [text.replace("\r\n", "\n").strip() for text in texts if text.strip()]
    return json.dumps([choice, *(sorted(clean) if control.unordered else clean)])


# ------------------------------------------------------------------------------------------ drawing


def shown_text(control: Control, value: Any) -> str:
    """Hidden text beside a control: what it shows, as `read` will see it when nobody touches it."""
    missing = value is None and control.nullable
    return _shown(control, NOT_SET if missing else A_VALUE, _posted(control, value))


def _posted(control: Control, value: Any) -> list[str]:
    """Lists of words stand in one text field."""
    texts = control.encode(value)
    return [control.joiner.join(texts)] if control.kind == "words" and texts else texts


def state_text(control: Control, value: Any) -> str:
    """What a document says of a field, for comparison: `-` where it is inherited."""
    if value is UNSET:
        return "-"
    if control.kind == "decimal" and isinstance(value, int):
        value = float(value)
    if control.unordered and isinstance(value, list):
        value = sorted(value, key=str)
    return json.dumps(value, sort_keys=True)


def posted_values(
    fields: Iterable[SchemaField], document: Mapping[str, Any]
) -> dict[str, list[str]]:
    """What a browser sends back from a page that shows `document` and that nobody touched."""
    sent: dict[str, list[str]] = {}
    for field in fields:
        has = field.name in document
        value = document[field.name] if has else field.default
        state = document[field.name] if has else UNSET
        sent[f"base.{field.name}"] = [state_text(field.control, state)]
        sent[f"on.{field.name}"] = ["1" if has else "0"]
        sent[f"shown.{field.name}"] = [shown_text(field.control, value)]
        sent[f"value.{field.name}"] = _posted(field.control, value)
        if has:
            sent[f"set.{field.name}"] = ["1"]
        if field.control.nullable:
            sent[f"null.{field.name}"] = [NOT_SET if value is None else A_VALUE]
    return sent
