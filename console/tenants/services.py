"""Changing tenants. Every change takes effect with the snapshot it makes."""

from __future__ import annotations

from typing import Any, Literal

from django.db import IntegrityError, transaction

from console.actor import Actor
from console.audit.services import Change, Subject, entry_create
from console.changes import announce
from console.errors import InputError, Missing
from console.specs import Name, Spec
from console.tenants.models import Tenant
from console.tenants.selectors import tenant_state
from policies.schema.snapshot import GeoFence


class TenantSpec(Spec):
    name: Name
    geo_fence: GeoFence | None = None
    """None: no fence. An empty list of regions allows nothing."""


class TenantPatch(Spec):
    """Only what is sent is changed."""

    name: Name = ""
    geo_fence: GeoFence | None = None
    state: Literal["active", "suspended"] = "active"


@transaction.atomic
def tenant_create(actor: Actor, spec: TenantSpec) -> Tenant:
    """Raises InputError when the name is taken."""
    tenant = Tenant(name=spec.name, allowed_regions=_regions(spec.geo_fence))
    _save(tenant)
    entry_create(actor, "tenant_create", _subject(tenant), Change(after=tenant_state(tenant)))
    announce(actor, f"tenant {tenant.name} created")
    return tenant


@transaction.atomic
def tenant_update(actor: Actor, tenant_id: str, patch: TenantPatch) -> Tenant:
    """Raises Missing for an unknown tenant. A change of nothing leaves no trace and no snapshot."""
    tenant = Tenant.objects.select_for_update().filter(pk=tenant_id).first()
    if tenant is None:
        raise Missing("No such tenant.")
    before = tenant_state(tenant)
    for name, value in _assignments(patch).items():
        setattr(tenant, name, value)
    after = tenant_state(tenant)
    if after == before:
        return tenant
    _save(tenant)
    entry_create(actor, "tenant_update", _subject(tenant), Change(before, after))
    announce(actor, f"tenant {tenant.name} changed")
    return tenant


def _assignments(patch: TenantPatch) -> dict[str, Any]:
    values = {name: getattr(patch, name) for name in patch.model_fields_set}
    if "geo_fence" in values:
        values["allowed_regions"] = _regions(values.pop("geo_fence"))
    return values


def _regions(fence: GeoFence | None) -> list[str] | None:
    return None if fence is None else sorted(set(fence.allowed_regions))


def _subject(tenant: Tenant) -> Subject:
    return Subject("tenant", tenant.id, tenant.id)


def _save(tenant: Tenant) -> None:
    try:
        with transaction.atomic():
            tenant.save()
    except IntegrityError:
        raise InputError.at("/name", "This name is taken.", "taken") from None
