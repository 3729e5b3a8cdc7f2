"""Settings of the geo-fence."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from policies.contract.config import SkillConfig
from policies.schema.base import Merge, Ui
from policies.schema.units import Mode, Percent, Region


class GeoResidencyConfig(SkillConfig):
    """Where the requests of a scope may be processed. A narrower scope can only tighten it."""

    mode: Annotated[Mode, Ui(group="Mode", widget="segmented"), Merge("tighten", "higher")] = Field(
        default="off",
        description="off: only the tenant's own fence holds. observe: records endpoints outside "
        "the fence, uses them all the same. shadow: also records what enforcing would have left. "
        "enforce: leaves them out of every attempt. A narrower scope can only go up this list.",
    )
    ramp_percent: Annotated[
        Percent, Ui(group="Mode", widget="percent", unit="%"), Merge("tighten", "higher")
    ] = Field(
        default=100,
        description="Share of keys, chosen by a stable hash of the key, that the mode holds for. "
        "A narrower scope can only raise it.",
    )
    allowed_regions: Annotated[
        tuple[Region, ...] | None,
        Ui(group="Fence", widget="regions"),
        Merge("tighten", "subset"),
    ] = Field(
        default=None,
        description="Regions that may process the request. Not set: every region that is known. "
        "Empty: none. An endpoint whose region is unknown never passes.",
    )
