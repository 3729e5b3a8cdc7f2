"""The skills in pipeline order, one line each. The only registry; the order is a safety property.

Importing this loads no runtime: the console draws forms from it without a model in memory.
"""

from __future__ import annotations

from typing import Final

from policies.contract.manifest import Skill
from policies.skills import circuit_breaker, geo_residency, hardware_telemetry

CATALOGUE: Final[tuple[Skill, ...]] = (
    geo_residency.SKILL,
    circuit_breaker.SKILL,
    hardware_telemetry.SKILL,
)

_BY_SLUG: Final = {entry.slug: entry for entry in CATALOGUE}


def skill(slug: str) -> Skill:
    """The manifest of `slug`; KeyError when there is no such skill."""
    return _BY_SLUG[slug]


def is_skill(slug: str) -> bool:
    return slug in _BY_SLUG
