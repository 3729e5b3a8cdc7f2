from __future__ import annotations

import pytest

from policies.contract.facts import EndpointFacts
from policies.skills.geo_residency import SKILL
from policies.skills.geo_residency.compile import GeoPlan
from policies.skills.geo_residency.runtime import GeoResidency
from tests.policies.examples import Example, examples, title
from tests.policies.host import FailingHost, FakeHost


def endpoint(region: str | None) -> EndpointFacts:
    return EndpointFacts("ep_1", "pool_1", "m", "vllm", region)


@pytest.mark.parametrize("example", examples("geo_residency"), ids=title)
def test_the_worked_examples_come_out_as_written(example: Example) -> None:
    fence = GeoResidency(example.plan, FakeHost())
    regions = {name: None if name == "unknown" else name for name in example.expect}
    assert {
        name: fence.rejects(endpoint(region)) for name, region in regions.items()
    } == example.expect


def test_it_fails_closed_and_needs_no_host_to_refuse() -> None:
    """Its declared direction: with the host down the fence still stands."""
    assert SKILL.on_error == "closed"
    fence = GeoResidency(GeoPlan(frozenset({"a-1"})), FailingHost())
    assert fence.rejects(endpoint("b-1")) == "region_not_allowed"
    assert fence.rejects(endpoint("a-1")) == ""
