from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.utils import timezone

from console import broker
from console.audit.models import AuditEntry
from console.budgets.models import Budget
from console.errors import Conflict, InputError, Missing
from console.keys import services
from console.keys.models import ApiKey, KeyDigest
from console.keys.services import KeyLimits, KeyPatch, KeySpec
from console.studio.models import SnapshotRecord
from console.tenants.models import Tenant
from policies.schema import wire
from policies.schema.credentials import checksum_ok, digest
from policies.schema.sealing import unseal
from policies.schema.snapshot import Snapshot
from tests.console.core_support import ADMIN, day_budget, make_key, make_tenant

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _empty_broker() -> None:
    broker.client().flushdb()


@pytest.fixture
def tenant() -> Tenant:
    return make_tenant()


def announced() -> Snapshot:
    envelope: Any = broker.client().hget(wire.SNAPSHOT_KEY, "envelope")
    return unseal(envelope, settings.ACE_SNAPSHOT_SECRET)[0]


def test_a_key_is_shown_once_and_only_its_digest_is_kept(tenant: Tenant) -> None:
    issued = make_key(tenant)
    assert checksum_ok(issued.plain)
    assert KeyDigest.objects.get().digest == digest(settings.ACE_KEY_PEPPER, issued.plain)
    stored = str(list(ApiKey.objects.values())) + str(list(AuditEntry.objects.values()))
    assert issued.plain not in stored
    assert issued.plain[12:-4] not in stored


def test_a_key_comes_with_its_budgets_in_one_snapshot(tenant: Tenant) -> None:
    before = SnapshotRecord.objects.count()
    issued = make_key(tenant, budgets=(day_budget(5), day_budget(7)))
    assert SnapshotRecord.objects.count() == before + 1
    assert [b.limit_microusd for b in announced().budgets] == [5, 7]
    assert all(b.subject == issued.key.id for b in announced().budgets)


def test_limits_models_and_end_reach_the_snapshot(tenant: Tenant) -> None:
    end = timezone.now() + timedelta(hours=1)
    limits = KeyLimits(requests_per_minute=0, concurrency=3)
    make_key(tenant, models=("b", "a"), rate_limits=limits, expires_at=end)
    (key,) = announced().keys
    assert key.models == ("a", "b")
    assert key.rate_limits.model_dump() == {
        "requests_per_minute": 0,
        "tokens_per_minute": None,
        "concurrency": 3,
    }
    assert key.digests[0].not_after_ms == int(end.timestamp() * 1000)


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"tenant": "ten_01XXX"}, "/tenant"),
        ({"name": "app"}, "/name"),
        ({"expires_at": timezone.now() - timedelta(days=1)}, "/expires_at"),
    ],
    ids=["tenant", "name", "expiry"],
)
def test_a_key_that_does_not_fit_leaves_nothing(
    tenant: Tenant, fields: dict[str, Any], pointer: str
) -> None:
    make_key(tenant, "app")
    before = (SnapshotRecord.objects.count(), AuditEntry.objects.count(), Budget.objects.count())
    values = {"tenant": tenant.id, "name": "other", "budgets": (day_budget(),)} | fields
    with pytest.raises(InputError) as caught:
        services.key_create(ADMIN, KeySpec(**values))
    assert [each.pointer for each in caught.value.problems] == [pointer]
    after = (SnapshotRecord.objects.count(), AuditEntry.objects.count(), Budget.objects.count())
    assert (ApiKey.objects.count(), after) == (1, before)


def test_rotation_keeps_the_old_secret_for_the_grace_and_no_longer(tenant: Tenant) -> None:
    issued = make_key(tenant)
    before = timezone.now()
    again = services.key_rotate(ADMIN, issued.key.id, 60)
    old, new = announced().keys[0].digests
    assert old.digest == digest(settings.ACE_KEY_PEPPER, issued.plain)
    assert new.digest == digest(settings.ACE_KEY_PEPPER, again.plain)
    assert new.not_after_ms is None
    grace_ms = (old.not_after_ms or 0) - before.timestamp() * 1000
    assert 59_000 <= grace_ms <= 61_000


def test_a_second_rotation_does_not_prolong_the_first_secret(tenant: Tenant) -> None:
    issued = make_key(tenant)
    services.key_rotate(ADMIN, issued.key.id, 60)
    first_end = announced().keys[0].digests[0].not_after_ms
    services.key_rotate(ADMIN, issued.key.id, 3600)
    digests = announced().keys[0].digests
    assert digests[0].not_after_ms == first_end
    assert len(digests) == 3


def test_rotation_without_grace_revokes_the_old_secret_at_once(tenant: Tenant) -> None:
    issued = make_key(tenant)
    services.key_rotate(ADMIN, issued.key.id, 0)
    old = digest(settings.ACE_KEY_PEPPER, issued.plain)
    assert broker.client().zscore(wire.REVOCATIONS_KEY, old) is not None
    assert old not in {each.digest for each in announced().keys[0].digests}


def test_revocation_is_fed_to_the_workers_at_once_and_for_ever(tenant: Tenant) -> None:
    issued = make_key(tenant)
    client: Any = broker.client()
    heard = client.pubsub()
    heard.subscribe(wire.REVOCATIONS_CHANNEL)
    heard.get_message(timeout=1)
    services.key_revoke(ADMIN, issued.key.id, "leaked")
    message = heard.get_message(timeout=1)
    wanted = digest(settings.ACE_KEY_PEPPER, issued.plain)
    assert message is not None
    assert message["data"] == wanted.encode()
    assert broker.client().zscore(wire.REVOCATIONS_KEY, wanted) is not None
    assert announced().keys == ()
    assert AuditEntry.objects.get(action="key_revoke").reason == "leaked"


def test_revoking_twice_changes_nothing_the_second_time(tenant: Tenant) -> None:
    issued = make_key(tenant)
    first = services.key_revoke(ADMIN, issued.key.id)
    before = (SnapshotRecord.objects.count(), AuditEntry.objects.count())
    second = services.key_revoke(ADMIN, issued.key.id)
    assert second.revoked_at == first.revoked_at
    assert (SnapshotRecord.objects.count(), AuditEntry.objects.count()) == before


def test_a_revoked_key_is_not_brought_back(tenant: Tenant) -> None:
    issued = make_key(tenant)
    services.key_revoke(ADMIN, issued.key.id)
    with pytest.raises(Conflict):
        services.key_rotate(ADMIN, issued.key.id, 0)
    with pytest.raises(Conflict):
        services.key_update(ADMIN, issued.key.id, KeyPatch(name="x"))


def test_an_update_changes_only_what_was_sent(tenant: Tenant) -> None:
    issued = make_key(tenant, models=("a",), rate_limits=KeyLimits(concurrency=3))
    services.key_update(ADMIN, issued.key.id, KeyPatch(name="new"))
    key = announced().keys[0]
    assert (key.name, key.models, key.rate_limits.concurrency) == ("new", ("a",), 3)
    services.key_update(ADMIN, issued.key.id, KeyPatch(models=None))
    assert announced().keys[0].models is None


def test_an_update_of_nothing_leaves_no_trace(tenant: Tenant) -> None:
    issued = make_key(tenant)
    before = (SnapshotRecord.objects.count(), AuditEntry.objects.count())
    services.key_update(ADMIN, issued.key.id, KeyPatch(name="app"))
    assert (SnapshotRecord.objects.count(), AuditEntry.objects.count()) == before


def test_the_name_of_a_revoked_key_is_free_again(tenant: Tenant) -> None:
    services.key_revoke(ADMIN, make_key(tenant).key.id)
    assert make_key(tenant).key.name == "app"
    with pytest.raises(InputError):
        make_key(tenant)


def test_a_key_of_nothing_is_missing() -> None:
    for act in (
        lambda: services.key_revoke(ADMIN, "key_X"),
        lambda: services.key_rotate(ADMIN, "key_X", 0),
        lambda: services.key_update(ADMIN, "key_X", KeyPatch()),
    ):
        with pytest.raises(Missing):
            act()
