"""Geo-fence data residency: requests are processed only where their scope allows."""

from __future__ import annotations

from policies.contract.manifest import Skill
from policies.skills.geo_residency.compile import bound_by, compile_plan, warns
from policies.skills.geo_residency.config import GeoResidencyConfig

SKILL = Skill(
    slug="geo_residency",
    title="Geo-fence data residency",
    summary="Keeps every attempt, retry and fallback inside the regions a tenant allows.",
    layer="L6",
    role="endpoint_filter",
    config=GeoResidencyConfig,
    compile=compile_plan,
    runtime="policies.skills.geo_residency.runtime:GeoResidency",
    on_error="closed",
    bound_by=bound_by,
    warns=warns,
)
