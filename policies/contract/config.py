"""Fields that every skill has."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from policies.schema.base import PolicyModel, Ui
from policies.schema.units import Mode, Percent


class SkillConfig(PolicyModel):
    """Base of every skill's settings. Defaults are what holds when no scope says anything."""

    mode: Annotated[Mode, Ui(group="Mode", widget="segmented")] = Field(
        default="off",
        description="off: not in the plan and free. observe: decides and records, changes nothing. "
        "shadow: also records what enforcing would have done. enforce: acts.",
    )
    ramp_percent: Annotated[Percent, Ui(group="Mode", widget="percent", unit="%")] = Field(
        default=100,
        description="Share of keys, chosen by a stable hash of the key, for which the mode holds; "
        "the others are off.",
    )
