"""Worked examples of a skill, as its tests and the laws read them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import yaml

from policies.catalogue import skill
from policies.contract.config import SkillConfig
from policies.contract.facts import TenantFacts

SKILLS = Path(__file__).parents[2] / "policies" / "skills"


@dataclass(frozen=True)
class Example:
    slug: str
    title: str
    why: str
    config: SkillConfig
    tenant: TenantFacts
    expect: Any

    @property
    def plan(self) -> Any:
        return skill(self.slug).compile(self.config, self.tenant)


def examples(slug: str) -> list[Example]:
    text = (SKILLS / slug / "examples.yaml").read_text()
    return [_example(slug, raw) for raw in yaml.safe_load(text)]


def _example(slug: str, raw: dict[str, Any]) -> Example:
    fence = raw.get("tenant", {}).get("allowed_regions")
    tenant = TenantFacts("ten_example", None if fence is None else tuple(fence))
    config = skill(slug).config.model_validate_json(orjson.dumps(raw["settings"]))
    return Example(slug, raw["title"], raw["why"], config, tenant, raw["expect"])


def title(example: Example) -> str:
    return example.title
