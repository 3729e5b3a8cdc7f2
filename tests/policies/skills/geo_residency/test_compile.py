from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from policies.contract.facts import EndpointFacts, TenantFacts
from policies.skills.geo_residency.compile import bound_by, compile_plan, warns
from policies.skills.geo_residency.config import GeoResidencyConfig

REGIONS = ("a-1", "b-1", "c-1", "d-1")
fences = st.none() | st.lists(st.sampled_from(REGIONS), unique=True).map(tuple)


def endpoint(region: str | None) -> EndpointFacts:
    return EndpointFacts("ep_1", "pool_1", "m", "vllm", region)


@given(policy=fences, tenant=fences, region=st.none() | st.sampled_from(REGIONS))
def test_a_region_passes_only_where_policy_and_tenant_both_allow_it(
    policy: tuple[str, ...] | None, tenant: tuple[str, ...] | None, region: str | None
) -> None:
    plan = compile_plan(GeoResidencyConfig(allowed_regions=policy), TenantFacts("t", tenant))
    allowed = region is not None and all(
        fence is None or region in fence for fence in (policy, tenant)
    )
    assert (plan.rejects(region) == "") is allowed


def test_the_reason_says_whether_the_region_is_unknown_or_forbidden() -> None:
    plan = compile_plan(GeoResidencyConfig(allowed_regions=("a-1",)), TenantFacts("t"))
    assert plan.rejects(None) == "region_unknown"
    assert plan.rejects("b-1") == "region_not_allowed"


def test_a_tenant_with_a_fence_is_bound_whatever_the_mode() -> None:
    assert bound_by(TenantFacts("t", ()))
    assert not bound_by(TenantFacts("t"))


def test_it_warns_when_no_endpoint_of_a_model_is_left() -> None:
    plan = compile_plan(GeoResidencyConfig(), TenantFacts("t", ("a-1",)))
    findings = warns(plan, TenantFacts("t"), [endpoint("b-1"), endpoint(None)])
    assert [(f.code, f.severity) for f in findings] == [("fence_leaves_no_endpoint", "warning")]
    assert not warns(plan, TenantFacts("t"), [endpoint("b-1"), endpoint("a-1")])
    assert not warns(plan, TenantFacts("t"), [])
