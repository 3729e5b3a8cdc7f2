from __future__ import annotations

import pytest
from pydantic import ValidationError

from policies.schema.base import Merge, PolicyModel


class Sample(PolicyModel):
    names: tuple[str, ...] = ()
    count: int = 0


def test_json_lists_are_tuples_and_nothing_else_is_guessed() -> None:
    assert Sample.model_validate_json('{"names": ["a"]}').names == ("a",)
    for wrong in ('{"count": "1"}', '{"count": true}', '{"cuont": 1}', '{"names": "a"}'):
        with pytest.raises(ValidationError):
            Sample.model_validate_json(wrong)


def test_a_document_cannot_be_changed() -> None:
    with pytest.raises(ValidationError):
        Sample().count = 2  # type: ignore[misc]


def test_a_field_is_overridden_unless_it_says_otherwise() -> None:
    assert Merge().mode == "override"
