from __future__ import annotations

import pytest

from console.audit.models import AuditEntry
from console.errors import InputError, Missing
from console.specs import parse
from console.studio.models import SnapshotRecord
from console.tenants.models import Tenant
from console.tenants.services import TenantPatch, TenantSpec, tenant_update
from policies.schema.snapshot import GeoFence
from tests.console.core_support import ADMIN, make_tenant

pytestmark = pytest.mark.django_db


def test_no_fence_an_empty_fence_and_a_fence_are_three_things() -> None:
    tenant = make_tenant()
    assert tenant.allowed_regions is None
    tenant_update(ADMIN, tenant.id, TenantPatch(geo_fence=GeoFence(allowed_regions=())))
    assert Tenant.objects.get().allowed_regions == []
    fence = GeoFence(allowed_regions=("us", "eu", "eu"))
    tenant_update(ADMIN, tenant.id, TenantPatch(geo_fence=fence))
    assert Tenant.objects.get().allowed_regions == ["eu", "us"]
    tenant_update(ADMIN, tenant.id, TenantPatch(name="New"))
    assert Tenant.objects.get().allowed_regions == ["eu", "us"]
    tenant_update(ADMIN, tenant.id, TenantPatch(geo_fence=None))
    assert Tenant.objects.get().allowed_regions is None


def test_a_change_of_nothing_leaves_no_trace() -> None:
    tenant = make_tenant()
    before = (AuditEntry.objects.count(), SnapshotRecord.objects.count())
    tenant_update(ADMIN, tenant.id, TenantPatch(name=tenant.name))
    tenant_update(ADMIN, tenant.id, TenantPatch())
    assert (AuditEntry.objects.count(), SnapshotRecord.objects.count()) == before


def test_names_are_trimmed_composed_and_unique() -> None:
    assert parse(TenantSpec, {"name": "  Cafe\u0301 "}).name == "Caf\u00e9"
    make_tenant("Caf\u00e9")
    with pytest.raises(InputError):
        make_tenant("Cafe\u0301")


def test_renaming_to_a_taken_name_changes_nothing() -> None:
    make_tenant("One")
    two = make_tenant("Two")
    with pytest.raises(InputError) as caught:
        tenant_update(ADMIN, two.id, TenantPatch(name="One"))
    assert caught.value.problems[0].pointer == "/name"
    assert Tenant.objects.get(pk=two.id).name == "Two"


def test_an_unknown_tenant_is_missing() -> None:
    with pytest.raises(Missing):
        tenant_update(ADMIN, "ten_X", TenantPatch(name="x"))
