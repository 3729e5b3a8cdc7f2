"""The inventory as the compiler wants it: what stands in the database now, in six queries whatever its size."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime
from typing import cast

from django.conf import settings
from django.db.models import Q
from django.utils import timezone

from console.budgets.models import Budget
from console.keys.models import ApiKey, KeyDigest
from console.providers.models import Pool, PriceVersion
from console.providers.selectors import pools_with_details, price_current
from console.providers.services import credential_plain
from console.tenants.models import Tenant, TenantState
from policies.compiler import Inventory
from policies.schema import snapshot as sent
from policies.schema.sealing import seal_secret
from policies.schema.units import BudgetMode, BudgetWindow, Engine


def inventory_read() -> Inventory:
    """Keys that can no longer open anything are left out, and with them the budgets that bind only them."""
    keys = _keys()
    return Inventory(
        tenants=[_tenant(tenant) for tenant in Tenant.objects.order_by("id")],
        keys=keys,
        pools=[_pool(pool) for pool in pools_with_details().filter(enabled=True).order_by("id")],
        budgets=_budgets({key.id for key in keys}),
    )


def _tenant(tenant: Tenant) -> sent.Tenant:
    regions = tenant.allowed_regions
    fence = None if regions is None else sent.GeoFence(allowed_regions=tuple(regions))
    return sent.Tenant(id=tenant.id, name=tenant.name, geo_fence=fence)


def _keys() -> list[sent.Key]:
    now = timezone.now()
    usable = ApiKey.objects.filter(
        Q(expires_at=None) | Q(expires_at__gt=now),
        revoked_at=None,
        tenant__state=TenantState.ACTIVE,
    )
    digests: dict[str, list[tuple[str, datetime | None]]] = defaultdict(list)
    living = KeyDigest.objects.filter(Q(not_after=None) | Q(not_after__gt=now), key__in=usable)
    for key_id, digest, not_after in living.order_by("id").values_list(
        "key_id", "digest", "not_after"
    ):
        digests[key_id].append((digest, not_after))
    return [_key(key, digests[key.id]) for key in usable.order_by("id")]


def _key(key: ApiKey, digests: list[tuple[str, datetime | None]]) -> sent.Key:
    models = key.allowed_models
    return sent.Key(
        id=key.id,
        tenant=key.tenant_id,
        name=key.name,
        digests=tuple(
            sent.KeyDigest(digest=digest, not_after_ms=_earlier_ms(not_after, key.expires_at))
            for digest, not_after in digests
        ),
        models=None if models is None else tuple(models),
        rate_limits=sent.RateLimits(
            requests_per_minute=key.requests_per_minute,
            tokens_per_minute=key.tokens_per_minute,
            concurrency=key.concurrency,
        ),
    )


def _earlier_ms(*times: datetime | None) -> int | None:
    """Unix milliseconds of the first end, rounded down: a key never outlives its end."""
    ends = [int(each.timestamp() * 1000) for each in times if each is not None]
    return min(ends) if ends else None


def _budgets(key_ids: set[str]) -> list[sent.Budget]:
    return [
        sent.Budget(
            id=budget.id,
            name=budget.name,
            scope=budget.scope,
            subject=budget.subject,
            limit_microusd=budget.limit_microusd,
            window=cast(BudgetWindow, budget.window),
            timezone=budget.timezone,
            mode=cast(BudgetMode, budget.mode),
        )
        for budget in Budget.objects.filter(archived_at=None).order_by("id")
        if budget.key_id is None or budget.key_id in key_ids
    ]


def _pool(pool: Pool) -> sent.Pool:
    plain = credential_plain(pool)
    return sent.Pool(
        id=pool.id,
        name=pool.name,
        model=pool.model,
        upstream_model=pool.upstream_model or None,
        engine=cast(Engine, pool.engine),
        endpoints=tuple(
            sent.Endpoint(id=each.id, base_url=each.base_url, region=each.region or None)
            for each in pool.endpoints.all()
        ),
        price=_price(price_current(pool)),
        max_output_tokens=pool.max_output_tokens,
        credential=None
        if plain is None
        else seal_secret(plain, settings.ACE_SNAPSHOT_SECRET, pool.id),
    )


def _price(price: PriceVersion | None) -> sent.Price | None:
    if price is None:
        return None
    return sent.Price(
        id=price.id,
        input_microusd_per_mtok=price.input_microusd_per_mtok,
        output_microusd_per_mtok=price.output_microusd_per_mtok,
        cached_input_microusd_per_mtok=price.cached_input_microusd_per_mtok,
    )
