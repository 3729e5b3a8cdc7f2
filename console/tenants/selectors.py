"""Reading tenants."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet

from console.accounts.permissions import visible_tenants
from console.actor import Actor
from console.errors import Missing
from console.tenants.models import Tenant


def tenants_visible(actor: Actor) -> QuerySet[Tenant]:
    """Newest first. Raises PermissionDenied when the role may see none."""
    ids = visible_tenants(actor, "tenants.read")
    found = Tenant.objects.order_by("-id")
    return found if ids is None else found.filter(pk__in=ids)


def tenant_get(actor: Actor, tenant_id: str) -> Tenant:
    """Raises Missing: a tenant the actor may not see does not exist for them."""
    tenant = tenants_visible(actor).filter(pk=tenant_id).first()
    if tenant is None:
        raise Missing("No such tenant.")
    return tenant


def tenant_state(tenant: Tenant) -> dict[str, Any]:
    """As the API shows it and the audit log keeps it."""
    regions = tenant.allowed_regions
    return {
        "id": tenant.id,
        "name": tenant.name,
        "state": str(tenant.state),
        "geo_fence": None if regions is None else {"allowed_regions": list(regions)},
        "created_at": tenant.created_at.isoformat(),
    }
