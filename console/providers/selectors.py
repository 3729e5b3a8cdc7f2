"""Reading pools. A provider key is never read out, only its fingerprint."""

from __future__ import annotations

from typing import Any

from django.db.models import Prefetch, QuerySet
from django.utils import timezone

from console.accounts.permissions import visible_tenants
from console.actor import Actor
from console.errors import Missing
from console.providers.models import Endpoint, Pool, PriceVersion, ProviderCredential


def pools_visible(actor: Actor) -> QuerySet[Pool]:
    """Newest first, with endpoints, price and credential at hand."""
    visible_tenants(actor, "pools.read")
    return pools_with_details().order_by("-id")


def pools_with_details() -> QuerySet[Pool]:
    newest = (
        PriceVersion.objects.filter(effective_at__lte=timezone.now())
        .order_by("pool_id", "-effective_at", "-id")
        .distinct("pool_id")
    )
    return Pool.objects.select_related("credential").prefetch_related(
        Prefetch("endpoints", Endpoint.objects.order_by("id")),
        Prefetch("prices", newest, to_attr="current_prices"),
    )


def pool_get(actor: Actor, pool_id: str) -> Pool:
    pool = pools_visible(actor).filter(pk=pool_id).first()
    if pool is None:
        raise Missing("No such pool.")
    return pool


def price_current(pool: Pool) -> PriceVersion | None:
    """None: unknown. Costs no query on a pool from `pools_with_details`."""
    found: list[PriceVersion] | None = getattr(pool, "current_prices", None)
    if found is not None:
        return found[0] if found else None
    return prices_of_pool(pool.id).filter(effective_at__lte=timezone.now()).first()


def prices_of_pool(pool_id: str) -> QuerySet[PriceVersion]:
    """Newest first; every price the pool ever had."""
    return PriceVersion.objects.filter(pool_id=pool_id).order_by("-effective_at", "-id")


def credential_of(pool: Pool) -> ProviderCredential | None:
    try:
        return pool.credential
    except ProviderCredential.DoesNotExist:
        return None


def price_state(price: PriceVersion | None) -> dict[str, Any] | None:
    return None if price is None else price_document(price)


def price_document(price: PriceVersion) -> dict[str, Any]:
    return {
        "id": price.id,
        "input_microusd_per_mtok": price.input_microusd_per_mtok,
        "output_microusd_per_mtok": price.output_microusd_per_mtok,
        "cached_input_microusd_per_mtok": price.cached_input_microusd_per_mtok,
        "effective_at": price.effective_at.isoformat(),
    }


def pool_state(pool: Pool) -> dict[str, Any]:
    """As the API shows it and the audit log keeps it."""
    credential = credential_of(pool)
    return {
        "id": pool.id,
        "name": pool.name,
        "model": pool.model,
        "upstream_model": pool.upstream_model or None,
        "engine": str(pool.engine),
        "enabled": pool.enabled,
        "max_output_tokens": pool.max_output_tokens,
        "endpoints": [
            {"id": each.id, "base_url": each.base_url, "region": each.region or None}
            for each in pool.endpoints.all()
        ],
        "price": price_state(price_current(pool)),
        "credential": None if credential is None else {"fingerprint": credential.fingerprint},
    }
