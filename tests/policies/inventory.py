"""A small installation to compile, and ways to change one thing in it."""

from __future__ import annotations

from policies.compiler import Inventory
from policies.schema.snapshot import (
    Budget,
    Endpoint,
    Key,
    KeyDigest,
    PolicyDocument,
    Pool,
    Price,
    Tenant,
)

PRICE = Price(id="price_1", input_microusd_per_mtok=100, output_microusd_per_mtok=400)
ENDPOINTS = (
    Endpoint(id="ep_1", base_url="http://a.example:8000", region="a-1"),
    Endpoint(id="ep_2", base_url="https://b.example", region="b-1"),
)
POOL = Pool(id="pool_1", name="main", model="m", engine="vllm", endpoints=ENDPOINTS, price=PRICE)
TENANT = Tenant(id="ten_1", name="Alice & Co")
KEY = Key(
    id="key_1", tenant="ten_1", name="app", digests=(KeyDigest(digest="0" * 64),), models=("m",)
)
BUDGET = Budget(
    id="bud_1", name="Month", scope="key", subject="key_1", limit_microusd=5_000, window="month"
)


def inventory(
    *,
    tenants: tuple[Tenant, ...] = (TENANT,),
    keys: tuple[Key, ...] = (KEY,),
    pools: tuple[Pool, ...] = (POOL,),
    budgets: tuple[Budget, ...] = (BUDGET,),
) -> Inventory:
    return Inventory(tenants, keys, pools, budgets)


def document(scope: str, slug: str, **fields: object) -> PolicyDocument:
    return PolicyDocument(scope=scope, skills={slug: fields})
