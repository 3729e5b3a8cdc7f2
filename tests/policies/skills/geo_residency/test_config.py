from __future__ import annotations

import pytest
from pydantic import ValidationError

from policies.merge import Layer, merge_layers
from policies.skills.geo_residency import SKILL
from policies.skills.geo_residency.config import GeoResidencyConfig


def test_a_region_with_a_wildcard_is_refused() -> None:
    with pytest.raises(ValidationError):
        GeoResidencyConfig(allowed_regions=("eu-*",))


def test_no_list_and_an_empty_list_are_two_things() -> None:
    assert GeoResidencyConfig().allowed_regions is None
    assert GeoResidencyConfig(allowed_regions=()).allowed_regions == ()


def test_a_narrower_scope_cannot_switch_the_fence_off() -> None:
    layers: list[tuple[str, Layer]] = [
        ("global", {"mode": "enforce"}),
        ("keys/key_1", {"mode": "off"}),
    ]
    config, origins = merge_layers(SKILL, layers)
    assert config.mode == "enforce"
    assert origins["mode"] == ("global",)


def test_regions_of_all_scopes_are_intersected() -> None:
    layers: list[tuple[str, Layer]] = [
        ("global", {"allowed_regions": ("a", "b", "c")}),
        ("tenants/ten_1", {"allowed_regions": ("b", "c", "d")}),
        ("models/m", {"allowed_regions": ("c", "a")}),
    ]
    config, origins = merge_layers(SKILL, layers)
    assert isinstance(config, GeoResidencyConfig)
    assert config.allowed_regions == ("c",)
    assert origins["allowed_regions"] == ("global", "tenants/ten_1", "models/m")
