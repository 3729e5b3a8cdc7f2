from __future__ import annotations

from typing import Any

import pytest
from django.conf import settings
from django.db import DatabaseError, transaction

from console.audit.models import AuditEntry
from console.errors import InputError
from console.providers import services
from console.providers.models import Endpoint, Pool, PriceVersion, ProviderCredential
from console.providers.probe import Step
from console.providers.specs import EndpointSpec, PoolPatch, PoolSpec, PriceSpec
from console.studio.inventory import inventory_read
from console.studio.models import SnapshotRecord
from policies.schema.sealing import unseal_secret
from tests.console.core_support import ADMIN, PRICE, URL, make_pool

pytestmark = pytest.mark.django_db
CANARY = "sk-canary-4711"


def test_an_endpoint_whose_address_stays_keeps_its_id() -> None:
    pool = make_pool()
    (kept,) = pool.endpoints.all()
    wanted = (
        EndpointSpec(base_url="https://8.8.4.4"),
        EndpointSpec(base_url=URL + "/v1/", region="us"),
    )
    services.pool_update(ADMIN, pool.id, PoolPatch(endpoints=wanted))
    found = {each.base_url: each for each in Endpoint.objects.all()}
    assert set(found) == {"https://8.8.4.4", URL}
    assert (found[URL].id, found[URL].region) == (kept.id, "us")


def test_a_new_price_is_a_new_row_and_old_rows_cannot_be_altered() -> None:
    pool = make_pool()
    services.price_set(ADMIN, pool.id, PRICE.model_copy(update={"input_microusd_per_mtok": 9}))
    assert [p.input_microusd_per_mtok for p in PriceVersion.objects.order_by("id")] == [500_000, 9]
    with pytest.raises(DatabaseError, match="never changed"), transaction.atomic():
        PriceVersion.objects.update(input_microusd_per_mtok=0)
    price = inventory_read().pools[0].price
    assert price is not None
    assert price.input_microusd_per_mtok == 9


def test_a_pool_without_a_price_is_sent_without_one() -> None:
    make_pool(price=None)
    assert inventory_read().pools[0].price is None


def test_the_same_price_again_makes_neither_row_nor_snapshot() -> None:
    pool = make_pool()
    before = SnapshotRecord.objects.count()
    services.price_set(ADMIN, pool.id, PriceSpec(**PRICE.model_dump()))
    assert (PriceVersion.objects.count(), SnapshotRecord.objects.count()) == (1, before)


def test_a_provider_key_is_stored_sealed_and_sent_sealed() -> None:
    pool = make_pool(credential=CANARY)
    stored = ProviderCredential.objects.get()
    assert CANARY.encode() not in bytes(stored.ciphertext) + bytes(stored.wrapped_key)
    sent = inventory_read().pools[0].credential
    assert sent is not None
    assert CANARY not in sent
    assert unseal_secret(sent, settings.ACE_SNAPSHOT_SECRET, pool.id) == CANARY
    assert CANARY not in str(list(AuditEntry.objects.values()))
    record = SnapshotRecord.objects.first()
    assert record is not None
    assert CANARY.encode() not in bytes(record.envelope)


def test_a_patch_that_says_nothing_of_the_key_keeps_it() -> None:
    pool = make_pool(credential=CANARY)
    services.pool_update(ADMIN, pool.id, PoolPatch(name="other"))
    assert services.credential_plain(Pool.objects.get()) == CANARY
    services.pool_update(ADMIN, pool.id, PoolPatch(credential=None))
    assert services.credential_plain(Pool.objects.get()) is None


def test_a_disabled_pool_is_not_sent() -> None:
    pool = make_pool()
    services.pool_update(ADMIN, pool.id, PoolPatch(enabled=False))
    assert inventory_read().pools == []


def test_a_refused_endpoint_leaves_nothing() -> None:
    before = AuditEntry.objects.count()
    ends = (EndpointSpec(base_url=URL), EndpointSpec(base_url="https://127.0.0.1"))
    with pytest.raises(InputError) as caught:
        make_pool(endpoints=ends)
    assert [each.pointer for each in caught.value.problems] == ["/endpoints/1/base_url"]
    assert (Pool.objects.count(), AuditEntry.objects.count()) == (0, before)


def test_a_test_sends_a_stored_key_only_where_it_is_known_to_belong(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pool = make_pool(credential=CANARY)
    seen: dict[str, Any] = {}

    def note(target: Any, operator: Any) -> list[Step]:
        seen[target.base_url] = target.credential
        return [Step("dns", "passed", "")]

    monkeypatch.setattr(services, "probe", note)
    elsewhere = "https://8.8.4.4"
    ends = (EndpointSpec(base_url=URL), EndpointSpec(base_url=elsewhere))
    spec = PoolSpec(name="pool", model="llama", engine="vllm", endpoints=ends)
    reports = services.pool_test(ADMIN, spec, pool.id)
    assert [each.passed for each in reports] == [True, True]
    assert seen == {URL: CANARY, elsewhere: None}
    assert AuditEntry.objects.filter(action="pool_test").count() == 1
