from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies import compiler
from policies.catalogue import skill
from policies.compiler import CompileError, Inventory, compile_snapshot, lint
from policies.contract.facts import TenantFacts
from policies.schema.sealing import canonical_json
from policies.schema.snapshot import (
    Endpoint,
    GeoFence,
    KeyDigest,
    PolicyDocument,
    Snapshot,
    Tenant,
)
from tests.policies.inventory import (
    BUDGET,
    ENDPOINTS,
    KEY,
    POOL,
    TENANT,
    document,
    inventory,
)

TENANT_2 = Tenant(id="ten_2", name="Bob")
KEY_2 = KEY.model_copy(update={"id": "key_2", "digests": (KeyDigest(digest="1" * 64),)})


def compiled(found: Inventory, *documents: PolicyDocument) -> Snapshot:
    return compile_snapshot(
        found, documents, version=3, policy_revision=2, created_at_ms=1_800_000_000_000
    )


def problems(found: Inventory, *documents: PolicyDocument) -> list[tuple[str, str, str, str]]:
    return [(p.code, p.severity, p.scope, p.pointer) for p in lint(found, documents)]


def test_a_sound_installation_has_nothing_to_say_and_compiles() -> None:
    policy = document("global", "circuit_breaker", mode="enforce")
    assert problems(inventory(), policy) == []
    snapshot = compiled(inventory(), policy)
    assert (snapshot.version, snapshot.policy_revision) == (3, 2)
    assert snapshot.documents == (policy,)


@given(st.permutations([TENANT, TENANT_2]), st.permutations([KEY, KEY_2]))
def test_equal_content_has_equal_bytes_in_whatever_order_it_was_read(
    tenants: list[Tenant], keys: list[object]
) -> None:
    expected = canonical_json(compiled(inventory(tenants=(TENANT, TENANT_2), keys=(KEY, KEY_2))))
    shuffled = Inventory(tuple(tenants), tuple(keys), (POOL,), (BUDGET,))  # type: ignore[arg-type]
    assert canonical_json(compiled(shuffled)) == expected


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (
            inventory(tenants=(TENANT, TENANT)),
            ("duplicate_id", "error", "tenants/ten_1", "/id"),
        ),
        (
            inventory(pools=(POOL, POOL.model_copy(update={"id": "pool_2"}))),
            ("duplicate_id", "error", "endpoints/ep_1", "/id"),
        ),
        (
            inventory(keys=(KEY, KEY_2.model_copy(update={"digests": KEY.digests}))),
            ("duplicate_digest", "error", "keys/key_2", "/digests"),
        ),
        (
            inventory(keys=(KEY, KEY_2.model_copy(update={"tenant": "ten_9"}))),
            ("unknown_tenant", "error", "keys/key_2", "/tenant"),
        ),
        (
            inventory(keys=(KEY.model_copy(update={"models": ("m", "n")}),)),
            ("unknown_model", "warning", "keys/key_1", "/models"),
        ),
        (
            inventory(budgets=(BUDGET.model_copy(update={"scope": "tenant"}),)),
            ("unknown_budget_subject", "error", "budgets/bud_1", "/subject"),
        ),
        (
            inventory(budgets=(BUDGET.model_copy(update={"timezone": "Europe/Atlantis"}),)),
            ("unknown_timezone", "error", "budgets/bud_1", "/timezone"),
        ),
        (
            inventory(pools=(POOL.model_copy(update={"price": None}),)),
            ("pool_without_price", "warning", "pools/pool_1", "/price"),
        ),
        (
            inventory(pools=(POOL.model_copy(update={"endpoints": ()}),)),
            ("pool_without_endpoints", "warning", "pools/pool_1", "/endpoints"),
        ),
    ],
    ids=lambda each: "-".join(each[::2]) if isinstance(each, tuple) else "",
)
def test_each_mistake_in_the_inventory_is_named(
    found: Inventory, expected: tuple[str, str, str, str]
) -> None:
    assert expected in problems(found)


@pytest.mark.parametrize(
    "address",
    [
        "ftp://a.example",
        "a.example:8000",
        "http://",
        "http://user:secret@a.example",
        "http://a.example:port",
        "http://a.example/?q=1",
    ],
)
def test_an_address_that_is_no_plain_http_address_is_refused(address: str) -> None:
    pool = POOL.model_copy(
        update={"endpoints": (Endpoint(id="ep_1", base_url=address, region="a-1"),)}
    )
    expected = ("invalid_base_url", "error", "pools/pool_1", "/endpoints/0/base_url")
    assert problems(inventory(pools=(pool,))) == [expected]


def test_an_endpoint_of_unknown_region_is_pointed_out() -> None:
    unknown = Endpoint(id="ep_3", base_url="http://c.example")
    pool = POOL.model_copy(update={"endpoints": (*ENDPOINTS, unknown)})
    expected = ("region_unknown", "warning", "pools/pool_1", "/endpoints/2/region")
    assert problems(inventory(pools=(pool,))) == [expected]


def test_two_documents_of_one_scope_are_refused() -> None:
    twice = document("global", "circuit_breaker")
    assert problems(inventory(), twice, twice) == [("duplicate_scope", "error", "global", "")]


def test_settings_of_something_that_is_gone_are_pointed_out() -> None:
    gone = document("tenants/ten_9", "circuit_breaker", min_calls=5)
    assert problems(inventory(), gone) == [("unknown_scope", "warning", "tenants/ten_9", "")]


def test_a_mistake_in_a_document_is_named_with_its_place() -> None:
    wrong = document("keys/key_1", "circuit_breaker", min_calls=0)
    expected = ("invalid_value", "error", "keys/key_1", "/skills/circuit_breaker/min_calls")
    assert problems(inventory(), wrong) == [expected]


@pytest.mark.parametrize("parent", ["global", "tenants/ten_1"])
def test_a_looser_value_is_refused_and_its_parent_named(parent: str) -> None:
    wider = document(parent, "geo_residency", allowed_regions=["a-1"])
    narrower = document("keys/key_1", "geo_residency", allowed_regions=["a-1", "b-1"])
    found = lint(inventory(), [wider, narrower])
    assert [(p.code, p.scope, p.pointer) for p in found] == [
        ("loosens_parent", "keys/key_1", "/skills/geo_residency/allowed_regions")
    ]
    assert parent in found[0].message
    assert '["a-1"]' in found[0].message


def test_another_tenants_document_is_no_parent() -> None:
    other = document("tenants/ten_2", "geo_residency", allowed_regions=["a-1"])
    mine = document("keys/key_1", "geo_residency", allowed_regions=["b-1"])
    assert problems(inventory(tenants=(TENANT, TENANT_2)), other, mine) == []


@pytest.mark.parametrize("scope", ["keys/key_1", "models/m"])
def test_fields_that_contradict_each_other_only_together_are_refused(scope: str) -> None:
    wider = document("global", "circuit_breaker", max_open_ms=5_000, base_open_ms=5_000)
    narrower = document(scope, "circuit_breaker", base_open_ms=6_000)
    found = lint(inventory(), [wider, narrower])
    assert {(p.code, p.scope) for p in found} == {("contradiction", scope)}
    assert "max_open_ms must be at least base_open_ms" in found[0].message
    assert "Value error" not in found[0].message


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (None, ("contradiction", "error", "keys/key_1", "/skills/circuit_breaker")),
        ("ten_1", ("plan_invalid", "error", "tenants/ten_1", "/skills/circuit_breaker")),
    ],
)
def test_settings_that_give_no_plan_are_refused(
    facts: str | None,
    expected: tuple[str, str, str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`facts`: the compile step refuses that tenant's facts; None: it refuses everything."""

    def refuses(_config: object, tenant: TenantFacts) -> int:
        if facts in (None, tenant.id):
            raise ValueError("cannot be built")
        return 0

    broken = replace(skill("circuit_breaker"), compile=refuses)
    monkeypatch.setattr(compiler, "CATALOGUE", (broken,))
    scope = "keys/key_1" if facts is None else "global"
    policy = document(scope, "circuit_breaker", mode="enforce")
    assert problems(inventory(), policy) == [expected]


def test_a_contradiction_of_a_key_and_a_model_is_found() -> None:
    key = document("keys/key_1", "circuit_breaker", max_open_ms=5_000, base_open_ms=1_000)
    model = document("models/m", "circuit_breaker", base_open_ms=9_000)
    found = problems(inventory(), key, model)
    assert found == [("contradiction", "error", "models/m", "/skills/circuit_breaker")]


def test_a_fence_that_leaves_no_endpoint_is_a_warning() -> None:
    fenced = TENANT.model_copy(update={"geo_fence": GeoFence(allowed_regions=("z-1",))})
    expected = ("fence_leaves_no_endpoint", "warning", "tenants/ten_1", "/skills/geo_residency")
    assert problems(inventory(tenants=(fenced,))) == [expected]
    assert compiled(inventory(tenants=(fenced,))).tenants == (fenced,)


def test_policy_and_fence_that_exclude_each_other_are_a_warning() -> None:
    fenced = TENANT.model_copy(update={"geo_fence": GeoFence(allowed_regions=("a-1",))})
    policy = document("global", "geo_residency", mode="enforce", allowed_regions=["b-1"])
    expected = ("fence_leaves_no_endpoint", "warning", "tenants/ten_1", "/skills/geo_residency")
    assert problems(inventory(tenants=(fenced,)), policy) == [expected]


def test_an_error_stops_the_snapshot_and_every_one_is_told() -> None:
    broken = inventory(keys=(KEY.model_copy(update={"tenant": "ten_9"}),))
    wrong = document("global", "circuit_breaker", min_calls=0)
    with pytest.raises(CompileError) as caught:
        compiled(broken, wrong)
    assert [problem.code for problem in caught.value.problems] == [
        "unknown_tenant",
        "invalid_value",
    ]
    assert "(and 1 more)" in str(caught.value)


def test_errors_come_before_warnings() -> None:
    found = inventory(pools=(POOL.model_copy(update={"price": None}),))
    wrong = document("global", "circuit_breaker", min_calls=0)
    assert [problem.severity for problem in lint(found, [wrong])] == ["error", "warning"]


def test_an_empty_installation_compiles() -> None:
    assert compiled(Inventory()).keys == ()
