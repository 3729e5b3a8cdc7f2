from __future__ import annotations

from typing import Annotated

from pydantic import Field

from policies.contract.config import SkillConfig
from policies.schema.base import Merge, PolicyModel, Ui
from policies.schema.table import field_table, merge_words, note_of
from policies.schema.units import Percent


class Sample(PolicyModel):
    size: Annotated[int, Ui(unit="ms"), Merge("tighten", "lower")] = Field(
        default=5, ge=1, le=9, description="How long | how wide."
    )
    share: Annotated[Percent, Ui(unit="%")] = Field(
        default=50, ge=1, description="A narrowed type."
    )
    names: tuple[str, ...] | None = Field(default=None, description="Which ones.")


def test_the_table_has_default_limits_merge_mode_and_meaning() -> None:
    assert field_table(Sample).splitlines()[2:] == [
        "| `size` | `5` | 1–9 ms | tighten (lower) | How long \\| how wide. |",
        "| `share` | `50` | 1–100 % | override | A narrowed type. |",
        "| `names` | not set |  | override | Which ones. |",
    ]


def test_notes_of_a_field_are_found_by_kind() -> None:
    size = Sample.model_fields["size"]
    assert note_of(size, Ui) == Ui(unit="ms")
    assert note_of(Sample.model_fields["names"], Ui) is None


def test_the_base_of_every_skill_is_overridden_by_the_nearest_scope() -> None:
    words = {name: merge_words(info) for name, info in SkillConfig.model_fields.items()}
    assert words == {"mode": "override", "ramp_percent": "override"}
