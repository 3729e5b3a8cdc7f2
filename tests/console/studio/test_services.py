from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import redis
from django.conf import settings
from django.db import DatabaseError, connection, transaction

from console import broker
from console.audit.models import AuditEntry
from console.errors import Conflict, InputError, Missing
from console.keys.models import ApiKey, KeyDigest
from console.keys.services import key_revoke
from console.studio import services
from console.studio.feed import snapshot_announce, version_announced
from console.studio.inventory import inventory_read
from console.studio.models import PolicyDraft, PolicyRevision, SnapshotRecord
from console.studio.selectors import version_newest
from console.studio.services import DraftSpec, PublishRefused
from console.tenants.models import Tenant
from console.tenants.services import TenantPatch, TenantSpec, tenant_create, tenant_update
from policies.schema import wire
from policies.schema.sealing import unseal
from policies.schema.snapshot import Snapshot
from tests.console.core_support import ADMIN, day_budget, make_key, make_pool, make_tenant

pytestmark = pytest.mark.django_db(transaction=True)
FENCE = DraftSpec(skills={"geo_residency": {"mode": "enforce"}})


@pytest.fixture(autouse=True)
def _empty_broker() -> Iterator[None]:
    broker.client().flushdb()
    yield
    broker.client().flushdb()


def announced() -> Snapshot:
    envelope: Any = broker.client().hget(wire.SNAPSHOT_KEY, "envelope")
    return unseal(envelope, settings.ACE_SNAPSHOT_SECRET)[0]


def counts() -> tuple[int, ...]:
    return (
        SnapshotRecord.objects.count(),
        PolicyRevision.objects.count(),
        AuditEntry.objects.count(),
        version_announced(),
    )


def test_a_new_tenant_reaches_the_workers_without_a_publish() -> None:
    tenant = make_tenant()
    assert [found.id for found in announced().tenants] == [tenant.id]


def test_publish_freezes_drafts_and_sends_them() -> None:
    services.document_save(ADMIN, "global", FENCE)
    assert version_announced() == 0
    done = services.publish(ADMIN, "fence on")
    sent = announced()
    assert (sent.version, sent.policy_revision) == (done.version, done.revision) == (1, 1)
    assert sent.documents[0].skills == FENCE.skills
    assert AuditEntry.objects.get(action="publish").reason == "fence on"


def test_an_edited_draft_stays_out_of_snapshots_until_it_is_published() -> None:
    services.document_save(ADMIN, "global", FENCE)
    services.publish(ADMIN)
    services.document_save(ADMIN, "global", DraftSpec(skills={}))
    make_tenant()
    assert announced().documents[0].skills == FENCE.skills
    assert announced().policy_revision == 1


def test_what_does_not_compile_changes_nothing_and_says_all_that_is_wrong() -> None:
    services.document_save(ADMIN, "global", FENCE)
    services.publish(ADMIN)
    PolicyDraft.objects.filter(pk="global").update(
        skills={"geo_residency": {"mode": 7}, "nonsense": {}}
    )
    before = counts()
    with pytest.raises(PublishRefused) as caught:
        _publish_drafts()
    assert {each.code for each in caught.value.problems} >= {"unknown_skill", "invalid_value"}
    assert all(each.scope == "global" for each in caught.value.problems)
    assert counts() == before


def _publish_drafts() -> None:
    services.publish(ADMIN)


def test_an_inventory_change_that_does_not_compile_is_rolled_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tenant = make_tenant()
    PolicyRevision.objects.create(
        number=1, documents=[{"scope": "global", "skills": {"nonsense": {}}}], author="x"
    )
    before = counts()
    with pytest.raises(PublishRefused):
        tenant_update(ADMIN, tenant.id, TenantPatch(name="Other"))
    assert Tenant.objects.get().name == "Acme"
    assert counts() == before


def test_a_rollback_is_a_new_version_with_old_documents() -> None:
    services.document_save(ADMIN, "global", FENCE)
    first = services.publish(ADMIN)
    services.document_save(
        ADMIN, "global", DraftSpec(skills={"circuit_breaker": {"mode": "enforce"}})
    )
    services.publish(ADMIN)
    back = services.rollback(ADMIN, first.revision, "too strict")
    assert (back.version, back.revision) == (3, 3)
    assert announced().documents[0].skills == FENCE.skills
    assert PolicyDraft.objects.get(pk="global").skills == FENCE.skills
    assert PolicyRevision.objects.get(pk=3).restored_from_id == first.revision


def test_a_rollback_to_nothing_known_is_refused() -> None:
    before = counts()
    with pytest.raises(Missing):
        services.rollback(ADMIN, 9)
    assert counts() == before


def test_two_people_do_not_overwrite_each_other() -> None:
    services.document_save(ADMIN, "global", FENCE, edition=0)
    with pytest.raises(Conflict) as caught:
        services.document_save(ADMIN, "global", DraftSpec(skills={}), edition=0)
    assert caught.value.code == "stale"
    assert PolicyDraft.objects.get().skills == FENCE.skills


def test_a_draft_is_checked_when_it_is_saved() -> None:
    with pytest.raises(InputError) as caught:
        services.document_save(
            ADMIN, "global", DraftSpec(skills={"geo_residency": {"mode": "on"}, "nope": {}})
        )
    assert {each.pointer for each in caught.value.problems} == {
        "/skills/geo_residency/mode",
        "/skills/nope",
    }
    assert not PolicyDraft.objects.exists()


@pytest.mark.parametrize("scope", ["tenants/ten_X", "keys/x", "models/x", "global/x", "", "x\0"])
def test_a_scope_of_nothing_is_not_found(scope: str) -> None:
    with pytest.raises(Missing):
        services.document_save(ADMIN, scope, FENCE)


def test_eight_publishers_at_once_give_each_version_once_and_announce_the_newest_last() -> None:
    make_tenant()
    client: Any = broker.client()
    heard = client.pubsub()
    heard.subscribe(wire.SNAPSHOT_CHANNEL)
    heard.get_message(timeout=1)
    versions: list[int] = []
    threads = [threading.Thread(target=_publish_some, args=(versions, 5)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(versions) == list(range(2, 42))
    assert list(
        SnapshotRecord.objects.order_by("version").values_list("version", flat=True)
    ) == list(range(1, 42))
    said = [int(message["data"]) for message in iter(lambda: heard.get_message(timeout=0.2), None)]
    assert said == sorted(set(said)), "announced versions must only rise"
    assert said[-1] == version_announced() == announced().version == 41


def _publish_some(versions: list[int], times: int) -> None:
    try:
        versions += [services.publish(ADMIN).version for _ in range(times)]
    finally:
        connection.close()


def test_parallel_inventory_changes_are_all_in_the_last_snapshot() -> None:
    threads = [threading.Thread(target=_tenant_make, args=(f"T{n}",)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert {tenant.name for tenant in announced().tenants} == {f"T{n}" for n in range(8)}


def _tenant_make(name: str) -> None:
    try:
        tenant_create(ADMIN, TenantSpec(name=name))
    finally:
        connection.close()


class _Away:
    """Redis that does not answer, whatever is asked."""

    def __getattr__(self, name: str) -> Any:
        raise redis.ConnectionError("away")


def test_with_redis_down_it_is_stored_and_announced_when_redis_is_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(broker, "client", _Away)
        tenant = make_tenant()
        issued = make_key(tenant)
        key_revoke(ADMIN, issued.key.id)
        assert SnapshotRecord.objects.count() == 3
    assert version_announced() == 0
    assert services.snapshot_reannounce() == 3
    assert announced().version == 3
    digest = KeyDigest.objects.get().digest
    assert broker.client().zscore(wire.REVOCATIONS_KEY, digest) is not None


def test_an_emptied_redis_is_filled_again_and_a_full_one_left_alone() -> None:
    make_tenant()
    broker.client().flushdb()
    assert services.snapshot_reannounce() == 1
    broker.client().hset(wire.SNAPSHOT_KEY, "envelope", b"mark")
    assert services.snapshot_reannounce() == 1
    assert broker.client().hget(wire.SNAPSHOT_KEY, "envelope") == b"mark"


def test_the_first_start_sends_an_empty_snapshot() -> None:
    assert services.snapshot_reannounce() == 1
    assert announced().keys == ()


def test_a_restored_database_never_gives_a_version_again() -> None:
    make_tenant()
    snapshot_announce(70, b"from before the restore")
    assert services.snapshot_reannounce() == 71
    assert announced().version == 71


def test_an_older_snapshot_never_replaces_a_newer_one() -> None:
    snapshot_announce(9, b"nine")
    assert snapshot_announce(8, b"eight") == 9
    assert broker.client().hget(wire.SNAPSHOT_KEY, "envelope") == b"nine"


def test_revisions_and_snapshots_cannot_be_altered() -> None:
    services.publish(ADMIN)
    for rows in (PolicyRevision.objects, SnapshotRecord.objects):
        with pytest.raises(DatabaseError, match="never changed"), transaction.atomic():
            rows.update(author="somebody else")


def test_only_the_newest_fifty_snapshots_are_kept() -> None:
    SnapshotRecord.objects.bulk_create(
        SnapshotRecord(version=n, sha256="", envelope=b"", policy_revision=0, reason="", author="")
        for n in range(1, 61)
    )
    assert services.snapshots_prune() == 10
    assert version_newest() == 60
    assert services.snapshots_prune() == 0


def test_keys_that_open_nothing_are_not_sent_nor_are_their_budgets() -> None:
    tenant, gone = make_tenant(), make_tenant("Gone")
    living = make_key(tenant, "living", budgets=(day_budget(),))
    revoked = make_key(tenant, "revoked", budgets=(day_budget(),))
    key_revoke(ADMIN, revoked.key.id)
    make_key(gone, "suspended", budgets=(day_budget(),))
    tenant_update(ADMIN, gone.id, TenantPatch(state="suspended"))
    sent = announced()
    assert [key.id for key in sent.keys] == [living.key.id]
    assert [budget.subject for budget in sent.budgets] == [living.key.id]
    tenant_update(ADMIN, gone.id, TenantPatch(state="active"))
    assert len(announced().keys) == 2


def test_a_thousand_keys_compile_quickly_and_in_few_queries(
    django_assert_max_num_queries: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    tenant = make_tenant()
    make_pool()
    keys = ApiKey.objects.bulk_create(
        ApiKey(tenant=tenant, name=f"k{n}", prefix="ace_live_xxx", last4="xxxx", created_by="x")
        for n in range(1000)
    )
    KeyDigest.objects.bulk_create(
        KeyDigest(key=key, digest=f"{number:064x}") for number, key in enumerate(keys)
    )
    with django_assert_max_num_queries(8):
        assert len(inventory_read().keys) == 1000
    began = time.perf_counter()
    services.publish(ADMIN)
    took_ms = (time.perf_counter() - began) * 1000
    with capsys.disabled():
        print(f"\nsnapshot of 1,000 keys published in {took_ms:.0f} ms")
    assert len(announced().keys) == 1000
    assert took_ms < 3000
