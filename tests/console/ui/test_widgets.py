from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from console.ui.widgets import NotReadable, control_of
from policies.schema.base import Ui


class Inner(BaseModel):
    x: int


class Example(BaseModel):
    flag: bool = False
    few: Literal["a", "b"] = "a"
    many: Literal["a", "b", "c", "d", "e", "f"] = "a"
    count: Annotated[int, Ui(unit="ms"), Field(ge=0, le=9)] = Field(default=1, ge=2)
    ratio: float | None = None
    name: str = ""
    ticks: tuple[Literal["x", "y"], ...] = ()
    words: tuple[str, ...] | None = None
    codes: tuple[Annotated[int, Field(ge=1)], ...] = ()
    parts: tuple[Inner, ...] = ()
    table: dict[str, int] = {}


@pytest.mark.parametrize(
    ("field", "kind"),
    [
        ("flag", "segments"),
        ("few", "segments"),
        ("many", "select"),
        ("count", "integer"),
        ("ratio", "decimal"),
        ("name", "text"),
        ("ticks", "checks"),
        ("words", "words"),
        ("codes", "words"),
        ("parts", "yaml"),
        ("table", "yaml"),
    ],
)
def test_each_type_has_its_control(field: str, kind: str) -> None:
    assert control_of(Example.model_fields[field]).kind == kind


def test_limits_are_the_tightest_and_null_is_seen() -> None:
    count = control_of(Example.model_fields["count"])
    assert (count.low, count.high, count.unit) == (2, 9, "ms")
    assert control_of(Example.model_fields["ratio"]).nullable
    assert control_of(Example.model_fields["codes"]).item == "integer"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("flag", True),
        ("flag", False),
        ("codes", [3, 1]),
        ("parts", [{"x": 1}, {"x": 2}]),
        ("table", {"a": 1}),
        ("words", ["two words", "a,b"]),
        ("ratio", 1e-9),
    ],
)
def test_what_is_drawn_is_read_back(field: str, value: Any) -> None:
    control = control_of(Example.model_fields[field])
    assert control.decode(control.encode(value)) == value


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("flag", "maybe"),
        ("ratio", "nan"),
        ("ratio", "1,5"),
        ("parts", "a: ["),
        ("name", "x" * 20_001),
    ],
)
def test_what_cannot_be_read_is_refused(field: str, text: str) -> None:
    with pytest.raises(NotReadable):
        control_of(Example.model_fields[field]).decode([text])
