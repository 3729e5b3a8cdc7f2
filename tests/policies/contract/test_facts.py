from __future__ import annotations

import pytest

from policies.contract.facts import EndpointFacts, RequestContext, TenantFacts
from policies.schema.snapshot import GeoFence
from tests.policies.inventory import ENDPOINTS, POOL, TENANT


def test_facts_of_an_endpoint_come_from_its_pool_and_itself() -> None:
    facts = EndpointFacts.of(POOL, ENDPOINTS[1])
    assert facts == EndpointFacts("ep_2", "pool_1", "m", "vllm", "b-1")


@pytest.mark.parametrize(
    ("fence", "regions"),
    [(None, None), (GeoFence(allowed_regions=()), ()), (GeoFence(allowed_regions=("a",)), ("a",))],
)
def test_no_fence_and_an_empty_fence_stay_two_things(
    fence: GeoFence | None, regions: tuple[str, ...] | None
) -> None:
    tenant = TENANT.model_copy(update={"geo_fence": fence})
    assert TenantFacts.of(tenant) == TenantFacts("ten_1", regions)


def test_requests_do_not_share_what_skills_write() -> None:
    one, other = (RequestContext("ten_1", "key_1", "m", 1) for _ in range(2))
    one.data["tokens"] = 5
    assert other.data == {}
