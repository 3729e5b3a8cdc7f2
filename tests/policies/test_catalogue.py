from __future__ import annotations

import pytest

from policies.catalogue import CATALOGUE, is_skill, skill


def test_every_skill_is_found_by_its_slug() -> None:
    assert [skill(entry.slug) for entry in CATALOGUE] == list(CATALOGUE)
    assert len({entry.slug for entry in CATALOGUE}) == len(CATALOGUE)


def test_an_unknown_slug_is_an_error_and_can_be_asked_for_first() -> None:
    assert not is_skill("time_travel")
    with pytest.raises(KeyError, match="time_travel"):
        skill("time_travel")
