"""The demo: one tenant with a fence, a key with a hard budget, a pool in front of the local pod, a published policy.

Made once. What people change afterwards stays changed; only the pod's address follows the port of this run.
"""

from __future__ import annotations

import secrets
from typing import Any, Final, Literal

from django.db import transaction

from console.accounts.models import User
from console.accounts.services import TokenSpec, UserSpec, token_create, user_create
from console.actor import SYSTEM
from console.budgets.services import BudgetSpec
from console.keys.services import KeySpec, key_create
from console.launcher.demo import Demo
from console.launcher.pod import MODEL
from console.launcher.runfile import Login
from console.launcher.settings import LauncherSettings
from console.providers.models import Pool
from console.providers.services import pool_create, pool_update
from console.providers.specs import EndpointSpec, PoolPatch, PoolSpec, PriceSpec
from console.studio.selectors import draft_documents, version_newest
from console.studio.services import (
    DraftSpec,
    document_save,
    publish,
    snapshot_reannounce,
)
from console.tenants.models import Tenant
from console.tenants.services import TenantSpec, tenant_create
from policies.schema.snapshot import GeoFence

TENANT: Final = "Demo"
REGION: Final = "local"
BUDGET_MICROUSD: Final = 5_000_000
"""Five dollars a month: some 7 million tokens at the price below."""
INPUT_MICROUSD_PER_MTOK: Final = 500_000
OUTPUT_MICROUSD_PER_MTOK: Final = 1_500_000
MAX_OUTPUT_TOKENS: Final = 1024
Skills = dict[str, dict[str, Any]]
STARTING_POLICY: Final[Skills] = {"hardware_telemetry": {"mode": "enforce"}}
"""Looking at GPUs refuses nobody, so every installation starts with it."""
POLICY: Final[Skills] = STARTING_POLICY | {
    "geo_residency": {"mode": "enforce"},
    "circuit_breaker": {"mode": "enforce"},
}
"""Only regions that are known, tenants' fences, endpoints that work, and what the hardware says."""
_PASSWORD_BYTES: Final = 15


def ensure_snapshot() -> None:
    """Gateways start only with a snapshot; the first one refuses every key and is ready for the first of them.

    Drafts that somebody wrote before the first start are published as they are.
    """
    if version_newest() == 0:
        if not draft_documents():
            document_save(SYSTEM, "global", DraftSpec(skills=STARTING_POLICY))
        publish(SYSTEM, "Starting policy")
    else:
        snapshot_reannounce()


def ensure_demo(settings: LauncherSettings) -> Demo:
    """The demo that stands, or a new one. A database that was emptied gets a new key, never a stranger's."""
    demo = Demo.read_or_none(settings.home)
    if demo is not None and Tenant.objects.filter(pk=demo.tenant_id).exists():
        _follow_pod(demo, settings)
        return demo
    return _create(settings)


@transaction.atomic
def _create(settings: LauncherSettings) -> Demo:
    """The file is written before the commit: keys that nobody can read any more are worse than a file too many."""
    pool = pool_create(SYSTEM, _pool_spec(settings))
    fence = GeoFence(allowed_regions=(REGION,))
    tenant = tenant_create(SYSTEM, TenantSpec(name=TENANT, geo_fence=fence))
    admin, finance = _account("admin"), _account("finance")
    demo = Demo(
        tenant_id=tenant.id,
        pool_id=pool.id,
        admin=admin,
        finance=finance,
        api_key=key_create(SYSTEM, _key_spec(tenant.id)).plain,
        model=MODEL,
        management_token=token_create(SYSTEM, TokenSpec(name="Demo token")).plain,
    )
    document_save(SYSTEM, "global", DraftSpec(skills=POLICY))
    publish(SYSTEM, "Demo policy")
    demo.write(settings.home)
    return demo


def _follow_pod(demo: Demo, settings: LauncherSettings) -> None:
    """Only a pool that still has the pod alone: endpoints that people added are theirs."""
    pool = Pool.objects.filter(pk=demo.pool_id).first()
    addresses = [] if pool is None else [endpoint.base_url for endpoint in pool.endpoints.all()]
    alone = len(addresses) == 1 and addresses[0].startswith("http://127.0.0.1:")
    if alone and addresses != [settings.pod_url]:
        pool_update(SYSTEM, demo.pool_id, PoolPatch(endpoints=_endpoints(settings)))


def _pool_spec(settings: LauncherSettings) -> PoolSpec:
    return PoolSpec(
        name="Local pod",
        model=MODEL,
        engine="openai",
        endpoints=_endpoints(settings),
        price=PriceSpec(
            input_microusd_per_mtok=INPUT_MICROUSD_PER_MTOK,
            output_microusd_per_mtok=OUTPUT_MICROUSD_PER_MTOK,
        ),
        max_output_tokens=MAX_OUTPUT_TOKENS,
    )


def _endpoints(settings: LauncherSettings) -> tuple[EndpointSpec, ...]:
    return (EndpointSpec(base_url=settings.pod_url, region=REGION),)


def _key_spec(tenant_id: str) -> KeySpec:
    budget = BudgetSpec(name="Demo month", limit_microusd=BUDGET_MICROUSD, window="month")
    return KeySpec(tenant=tenant_id, name="First key", models=(MODEL,), budgets=(budget,))


def _account(role: Literal["admin", "finance"]) -> Login:
    """Under the role's name, unless somebody has it already."""
    name = f"demo-{role}" if User.objects.filter(username=role).exists() else role
    password = secrets.token_urlsafe(_PASSWORD_BYTES)
    user_create(SYSTEM, UserSpec(username=name, password=password, role=role))
    return Login(name, password)
