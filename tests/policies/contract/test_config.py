from __future__ import annotations

import pytest
from pydantic import ValidationError

from policies.contract.config import SkillConfig


def test_a_skill_nobody_speaks_of_is_off_for_everyone() -> None:
    assert SkillConfig().model_dump() == {"mode": "off", "ramp_percent": 100}


@pytest.mark.parametrize(
    "settings", [{"mode": "on"}, {"ramp_percent": 101}, {"ramp_percent": -1}, {"rampe": 5}]
)
def test_a_wrong_value_or_a_typo_is_refused(settings: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        SkillConfig.model_validate(settings)
