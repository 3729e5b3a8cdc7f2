from __future__ import annotations

import pytest

from policies.compiler import PolicyIndex, compile_snapshot
from policies.explain import explain, explain_skills
from policies.schema.snapshot import Budget, GeoFence, PolicyDocument, Snapshot, Tenant
from tests.policies.inventory import BUDGET, TENANT, document, inventory

FENCED = TENANT.model_copy(update={"geo_fence": GeoFence(allowed_regions=("a-1",))})
OTHERS = Budget(
    id="bud_2", name="Bob", scope="tenant", subject="ten_2", limit_microusd=1, window="day"
)


def snapshot(*documents: PolicyDocument, tenant: Tenant = TENANT) -> Snapshot:
    found = inventory(tenants=(tenant, Tenant(id="ten_2", name="Bob")), budgets=(BUDGET, OTHERS))
    return compile_snapshot(found, documents, version=4, policy_revision=2, created_at_ms=0)


def test_it_says_what_binds_a_key_and_nothing_of_other_tenants() -> None:
    found = explain(snapshot(), "key_1", "m")
    assert (found.snapshot_version, found.policy_revision) == (4, 2)
    assert found.tenant == TENANT
    assert [budget.id for budget in found.budgets] == ["bud_1"]
    assert [pool.id for pool in found.pools] == ["pool_1"]
    assert found.model_allowed


def test_a_model_the_key_may_not_use_is_said_so() -> None:
    assert not explain(snapshot(), "key_1", "n").model_allowed


def test_an_unknown_key_is_an_error() -> None:
    with pytest.raises(KeyError, match="key_9"):
        explain(snapshot(), "key_9", "m")


def test_a_field_names_its_origin_and_everything_that_was_said() -> None:
    found = explain(
        snapshot(
            document("global", "geo_residency", mode="enforce", allowed_regions=["a-1", "b-1"]),
            document("keys/key_1", "geo_residency", allowed_regions=["b-1"]),
        ),
        "key_1",
        "m",
    )
    geo = next(each for each in found.skills if each.slug == "geo_residency")
    regions = next(field for field in geo.fields if field.name == "allowed_regions")
    assert geo.mode == "enforce"
    assert regions.value == ("b-1",)
    assert regions.origin == ("keys/key_1",)
    assert regions.merge == "tighten (subset)"
    assert regions.said == (("global", ("a-1", "b-1")), ("keys/key_1", ("b-1",)))


def test_a_skill_bound_by_the_tenants_fence_is_said_so_though_it_is_off() -> None:
    geo = explain(snapshot(tenant=FENCED), "key_1", "m").skills[0]
    assert (geo.slug, geo.mode, geo.bound_by_tenant) == ("geo_residency", "off", True)


def test_a_draft_can_be_explained_without_a_tenant_key_or_model() -> None:
    index = PolicyIndex.of([document("global", "circuit_breaker", mode="observe")])
    modes = {each.slug: each.mode for each in explain_skills(index, None, None, None)}
    assert modes["circuit_breaker"] == "observe"
    assert modes["geo_residency"] == "off"
