from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from policies.schema.units import Identifier, MicroUSD, ModelName, Percent, Ratio, Region, Slug


@pytest.mark.parametrize(
    ("unit", "value"),
    [
        (MicroUSD, 0),
        (Region, "eu-west-1"),
        (ModelName, "org/Model-7B:v1.2"),
        (Slug, "geo_residency"),
        (Identifier, "key_01JABC"),
        (Ratio, 0.5),
        (Percent, 100),
    ],
)
def test_a_value_of_the_unit_is_taken(unit: Any, value: object) -> None:
    assert TypeAdapter(unit).validate_python(value, strict=True) == value


@pytest.mark.parametrize(
    ("unit", "value"),
    [
        (MicroUSD, -1),
        (MicroUSD, 1.5),
        (Region, "*"),
        (Region, "EU-West"),
        (Region, "eu--west"),
        (ModelName, "../etc"),
        (ModelName, "a b"),
        (Slug, "Geo"),
        (Identifier, "01JABC"),
        (Identifier, "key_1\n"),
        (Ratio, 1.01),
        (Percent, 101),
    ],
)
def test_a_value_outside_the_unit_is_refused(unit: Any, value: object) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(unit).validate_python(value, strict=True)
