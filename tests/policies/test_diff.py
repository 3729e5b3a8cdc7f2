from __future__ import annotations

from policies.compiler import Inventory, compile_snapshot
from policies.diff import HIDDEN, Change, diff_snapshots
from policies.schema.sealing import seal_secret
from policies.schema.snapshot import GeoFence, KeyDigest, PolicyDocument, Snapshot
from tests.policies.inventory import KEY, POOL, TENANT, document, inventory


def snapshot(found: Inventory, *documents: PolicyDocument, version: int = 1) -> Snapshot:
    return compile_snapshot(
        found, documents, version=version, policy_revision=version, created_at_ms=version
    )


BEFORE = snapshot(inventory(), document("global", "circuit_breaker", mode="observe", min_calls=5))


def test_a_new_version_of_the_same_content_is_no_change() -> None:
    same = snapshot(
        inventory(),
        document("global", "circuit_breaker", mode="observe", min_calls=5),
        version=9,
    )
    assert diff_snapshots(BEFORE, same) == ()


def test_a_setting_that_changed_came_or_went_is_named_by_its_field() -> None:
    after = snapshot(
        inventory(), document("global", "circuit_breaker", mode="enforce", window_s=30)
    )
    place = "documents/global"
    assert diff_snapshots(BEFORE, after) == (
        Change("removed", place, "circuit_breaker.min_calls", before=5),
        Change("changed", place, "circuit_breaker.mode", "observe", "enforce"),
        Change("added", place, "circuit_breaker.window_s", after=30),
    )


def test_a_field_of_an_object_is_found_by_id_wherever_it_stands() -> None:
    moved = POOL.model_copy(update={"endpoints": POOL.endpoints[::-1]})
    fenced = TENANT.model_copy(update={"geo_fence": GeoFence(allowed_regions=("a-1",))})
    after = snapshot(inventory(pools=(moved,), tenants=(fenced,)), *BEFORE.documents)
    assert diff_snapshots(BEFORE, after) == (
        Change("added", "tenants/ten_1", "geo_fence.allowed_regions", after=["a-1"]),
    )


def test_an_endpoint_that_left_its_pool_is_one_removed_object() -> None:
    smaller = POOL.model_copy(update={"endpoints": POOL.endpoints[:1]})
    after = snapshot(inventory(pools=(smaller,)), *BEFORE.documents)
    (change,) = diff_snapshots(BEFORE, after)
    assert (change.kind, change.object, change.field) == ("removed", "endpoints/ep_2", "")
    assert change.before["base_url"] == "https://b.example"


def test_the_first_snapshot_adds_everything() -> None:
    places = {change.object for change in diff_snapshots(None, BEFORE)}
    assert places == {
        "budgets/bud_1",
        "documents/global",
        "endpoints/ep_1",
        "endpoints/ep_2",
        "keys/key_1",
        "pools/pool_1",
        "tenants/ten_1",
    }


def test_secrets_are_never_shown_also_when_they_are_all_that_changed() -> None:
    sealed = seal_secret("sk-provider", b"s" * 32, "pool_1")
    pool = POOL.model_copy(update={"credential": sealed})
    key = KEY.model_copy(update={"digests": (KeyDigest(digest="f" * 64),)})
    changes = diff_snapshots(
        BEFORE, snapshot(inventory(pools=(pool,), keys=(key,)), *BEFORE.documents)
    )
    assert changes == (
        Change("changed", "keys/key_1", "digests", HIDDEN, HIDDEN),
        Change("added", "pools/pool_1", "credential", after=HIDDEN),
    )
    everything = repr(diff_snapshots(None, snapshot(inventory(pools=(pool,), keys=(key,)))))
    assert sealed not in everything
    assert "f" * 64 not in everything
