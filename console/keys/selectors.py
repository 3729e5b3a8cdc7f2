"""Reading API keys. Nothing here can give back a plain key: there is none."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from django.utils import timezone

from console.accounts.permissions import visible_tenants
from console.actor import Actor
from console.errors import Missing
from console.keys.models import ApiKey


def keys_visible(actor: Actor) -> QuerySet[ApiKey]:
    """Newest first, with the tenant at hand."""
    ids = visible_tenants(actor, "keys.read")
    found = ApiKey.objects.select_related("tenant").order_by("-id")
    return found if ids is None else found.filter(tenant_id__in=ids)


def key_get(actor: Actor, key_id: str) -> ApiKey:
    key = keys_visible(actor).filter(pk=key_id).first()
    if key is None:
        raise Missing("No such key.")
    return key


def key_condition(key: ApiKey) -> str:
    """`active`, `revoked`, `expired` or `suspended`, as people and the API are told."""
    if key.revoked_at is not None:
        return "revoked"
    if key.expires_at is not None and key.expires_at <= timezone.now():
        return "expired"
    return "suspended" if key.tenant.state == "suspended" else "active"


def key_state(key: ApiKey) -> dict[str, Any]:
    """As the API shows it and the audit log keeps it."""
    return {
        "id": key.id,
        "tenant": key.tenant_id,
        "name": key.name,
        "state": key_condition(key),
        "prefix": key.prefix,
        "last4": key.last4,
        "models": None if key.allowed_models is None else list(key.allowed_models),
        "rate_limits": {
            "requests_per_minute": key.requests_per_minute,
            "tokens_per_minute": key.tokens_per_minute,
            "concurrency": key.concurrency,
        },
        "expires_at": key.expires_at.isoformat() if key.expires_at else None,
        "revoked_at": key.revoked_at.isoformat() if key.revoked_at else None,
        "created_at": key.created_at.isoformat(),
    }
