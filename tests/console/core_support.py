"""What the tests of the console's core share: actors, a small installation, a caller of the management API."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import orjson
from django.test import Client

from console.accounts.services import RoleName, TokenSpec, token_create
from console.actor import SYSTEM, Actor
from console.budgets.services import BudgetSpec
from console.keys.services import IssuedKey, KeySpec, key_create
from console.providers.models import Pool
from console.providers.services import pool_create
from console.providers.specs import EndpointSpec, PoolSpec, PriceSpec
from console.tenants.models import Tenant
from console.tenants.services import TenantSpec, tenant_create

ADMIN: Final = Actor("user:alice", "admin", "req_1")
PRICE: Final = PriceSpec(input_microusd_per_mtok=500_000, output_microusd_per_mtok=1_500_000)
URL: Final = "https://8.8.8.8"
"""A public literal: no name is looked up and nothing is connected to."""


def make_tenant(name: str = "Acme") -> Tenant:
    return tenant_create(ADMIN, TenantSpec(name=name))


def make_key(tenant: Tenant, name: str = "app", **fields: Any) -> IssuedKey:
    return key_create(ADMIN, KeySpec(tenant=tenant.id, name=name, **fields))


def make_pool(name: str = "pool", model: str = "llama", **fields: Any) -> Pool:
    defaults: dict[str, Any] = {
        "engine": "vllm",
        "endpoints": (EndpointSpec(base_url=URL, region="eu-west-1"),),
        "price": PRICE,
    }
    return pool_create(ADMIN, PoolSpec(name=name, model=model, **(defaults | fields)))


def day_budget(limit: int = 1_000_000) -> BudgetSpec:
    return BudgetSpec(name="day", limit_microusd=limit, window="day")


@dataclass
class Api:
    """The management API under one token, as an outside program calls it."""

    token: str
    client: Client

    @classmethod
    def of(cls, role: RoleName = "admin", tenants: tuple[str, ...] = ()) -> Api:
        issued = token_create(SYSTEM, TokenSpec(name=role, role=role, tenants=tenants))
        return cls(issued.plain, Client(raise_request_exception=False))

    def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """`body` bytes are sent as they are; anything else as JSON."""
        data = body if isinstance(body, bytes) else b"" if body is None else orjson.dumps(body)
        sent = {"Authorization": f"Bearer {self.token}", **headers}
        return self.client.generic(
            method, f"/api/v1{path}", data, content_type="application/json", headers=sent
        )
