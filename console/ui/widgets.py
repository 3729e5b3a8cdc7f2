"""Which control draws a value of a schema, and how the value becomes texts of a form and back again.

Both directions stand side by side, because they must be each other's inverse: what a page shows and a person does not
touch comes back as the same value.
"""

from __future__ import annotations

import re
import types
from dataclasses import dataclass
from typing import Any, Final, Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from console.ui.yaml_text import YamlProblem, dump, load
from policies.schema.base import Ui
from policies.schema.table import note_of

Kind = Literal["segments", "select", "checks", "words", "integer", "decimal", "text", "yaml"]

NOT_SET: Final = "none"
A_VALUE: Final = "some"
_FEW: Final = 5
_MAX_TEXT: Final = 20_000
_SEPARATORS: Final = re.compile(r"[\s,;]+")
_LINES: Final = re.compile(r"[\r\n]+")
_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,18}")
_NUMBER: Final = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,3})?")
_UNITS: Final = {"percent": "%", "duration": ""}


class NotReadable(ValueError):  # noqa: N818 - reads as what it is
    """The texts are no value of the control; the message is for the person who typed them."""


@dataclass(frozen=True, slots=True)
class Control:
    """How one field is drawn and read. `low` and `high` are shown; the schema itself checks them."""

    kind: Kind
    options: tuple[Any, ...] = ()
    """Values of a choice, in declared order."""
    item: Kind = "text"
    """What the parts of a list are: `integer`, `decimal` or `text`."""
    nullable: bool = False
    """None is a value of its own: "no restriction", neither 0 nor inherited."""
    unit: str = ""
    low: float | None = None
    high: float | None = None
    known: str = ""
    """Name of a list the page can offer, such as `regions`."""

    @property
    def many(self) -> bool:
        return self.kind in ("checks", "words")

    @property
    def unordered(self) -> bool:
        """Ticks come back in the order of the page, which means nothing."""
        return self.kind == "checks" or bool(self.known)

    @property
    def joiner(self) -> str:
        """Between the words of a list in its text field."""
        return ", " if self.item in ("integer", "decimal") else "\n"

    def encode(self, value: Any) -> list[str]:
        """Texts of the control for a JSON value; None of a nullable control has none."""
        if value is None:
            return []
        if self.many:
            return [_text(part) for part in value]
        return [dump(value) if self.kind == "yaml" else _text(value)]

    def decode(self, texts: list[str]) -> Any:
        """The JSON value of the texts a form sent. Raises NotReadable."""
        if any(len(text) > _MAX_TEXT for text in texts):
            raise NotReadable("This is too long.")
        if self.many:
            return [_part(self.item, word) for word in dict.fromkeys(self.words(texts))]
        return self._single(texts[0].strip() if texts else "")

    def words(self, texts: list[str]) -> list[str]:
        """Texts one a line; numbers also between commas and spaces."""
        parts = _LINES if self.item == "text" else _SEPARATORS
        found = [word.strip() for text in texts for word in parts.split(text)]
        return [word for word in found if word]

    def _single(self, text: str) -> Any:
        if self.kind in ("segments", "select"):
            return self._option(text)
        if self.kind == "yaml":
            return _yaml(text)
        return _part(self.kind, text)

    def _option(self, text: str) -> Any:
        for option in self.options:
            if _text(option) == text:
                return option
        raise NotReadable("Choose one of the options.")


def control_of(info: FieldInfo) -> Control:
    """The control of a config field, from its type, its limits and its `Ui` note."""
    ui: Ui = note_of(info, Ui) or Ui()
    plain, nullable = _without_none(info.annotation)
    kind, options, item = _kind(plain)
    return Control(
        kind=kind,
        options=options,
        item=item,
        nullable=nullable,
        unit=ui.unit or _UNITS.get(ui.widget or "", ""),
        low=_bound(info, "ge", max),
        high=_bound(info, "le", min),
        known="regions" if ui.widget == "regions" else "",
    )


def _kind(annotation: Any) -> tuple[Kind, tuple[Any, ...], Kind]:
    options = _options(annotation)
    if options:
        return ("segments" if len(options) <= _FEW else "select"), options, "text"
    if annotation in _SIMPLE:
        return _SIMPLE[annotation], (), "text"
    part = _part_of_list(annotation)
    if _options(part):
        return "checks", _options(part), "text"
    if part in _SIMPLE:
        return "words", (), _SIMPLE[part]
    return "yaml", (), "text"


_SIMPLE: Final[dict[Any, Kind]] = {int: "integer", float: "decimal", str: "text"}


def _options(annotation: Any) -> tuple[Any, ...]:
    if annotation is bool:
        return (True, False)
    return get_args(annotation) if get_origin(annotation) is Literal else ()


def _part_of_list(annotation: Any) -> Any:
    """The type of the parts of `tuple[X, ...]`, without its limits; None for anything else."""
    arguments = get_args(annotation)
    whole = get_origin(annotation) is tuple and len(arguments) == 2 and arguments[1] is Ellipsis  # noqa: PLR2004
    if not whole:
        return None
    part = arguments[0]
    return get_args(part)[0] if hasattr(part, "__metadata__") else part


def _without_none(annotation: Any) -> tuple[Any, bool]:
    if get_origin(annotation) not in (Union, types.UnionType):
        return annotation, False
    rest = [each for each in get_args(annotation) if each is not type(None)]
    if len(rest) != 1:
        return annotation, False
    plain = rest[0]
    bare = get_args(plain)[0] if hasattr(plain, "__metadata__") else plain
    return bare, True


def _bound(info: FieldInfo, name: str, tightest: Any) -> float | None:
    found = [getattr(note, name) for note in info.metadata if getattr(note, name, None) is not None]
    return tightest(found) if found else None


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def _part(kind: Kind, text: str) -> Any:
    if kind == "integer":
        if not _WHOLE.fullmatch(text):
            raise NotReadable("Enter a whole number.")
        return int(text)
    if kind == "decimal":
        if not _NUMBER.fullmatch(text):
            raise NotReadable("Enter a number, such as 0.25.")
        return float(text)
    return text


def _yaml(text: str) -> Any:
    try:
        return load(text)
    except YamlProblem as error:
        raise NotReadable(str(error)) from None
