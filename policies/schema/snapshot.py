"""The snapshot: everything a request may be judged by, as one immutable document sent to the
workers.

Two types on purpose: this one is what is *sent* (Pydantic, versioned, hashed);
`gateway.pipeline.plan.RuntimePlan` is what is *run* (slotted, built once per snapshot, swapped
whole).
"""

from __future__ import annotations

from typing import Any, Final, Literal

from pydantic import Field

from policies.schema.base import PolicyModel
from policies.schema.units import (
    BudgetMode,
    BudgetWindow,
    Engine,
    Identifier,
    MicroUSD,
    ModelName,
    Region,
    Slug,
)

SCHEMA_VERSION: Final = 1


class Price(PolicyModel):
    """One immutable price version of a pool, in micro-dollars for a million tokens."""

    id: Identifier
    input_microusd_per_mtok: MicroUSD
    output_microusd_per_mtok: MicroUSD
    cached_input_microusd_per_mtok: MicroUSD | None = None
    """None: cached input is charged as input."""


class Endpoint(PolicyModel):
    """One replica. A fact that is None is unknown, and unknown is never allowed by a fence."""

    id: Identifier
    base_url: str = Field(max_length=300)
    """Scheme, host, port and optional path prefix, without `/v1`."""
    region: Region | None = None


class Pool(PolicyModel):
    """Equal replicas that serve one public model."""

    id: Identifier
    name: str
    model: ModelName
    upstream_model: ModelName | None = None
    """Name the engine knows; None: the public name."""
    engine: Engine
    endpoints: tuple[Endpoint, ...] = ()
    price: Price | None = None
    """None: the price is unknown and the pool refuses work rather than serving it free."""
    max_output_tokens: int = Field(default=4096, ge=1)
    """Cap put on a request that names none; the hold is made from it."""
    credential: str | None = None
    """Provider key sealed by `policies.schema.sealing`; never plain text."""


class GeoFence(PolicyModel):
    allowed_regions: tuple[Region, ...]
    """Empty: nothing is allowed."""


class Tenant(PolicyModel):
    id: Identifier
    name: str
    geo_fence: GeoFence | None = None


class RateLimits(PolicyModel):
    """None is unlimited; 0 refuses everything."""

    requests_per_minute: int | None = Field(default=None, ge=0)
    tokens_per_minute: int | None = Field(default=None, ge=0)
    concurrency: int | None = Field(default=None, ge=0)


class KeyDigest(PolicyModel):
    """HMAC-SHA256 of the key under the pepper, as hex. A rotated key keeps its old digest until
    `not_after_ms`.
    """

    digest: str = Field(pattern=r"^[0-9a-f]{64}$")
    not_after_ms: int | None = None


class Key(PolicyModel):
    id: Identifier
    tenant: Identifier
    name: str
    digests: tuple[KeyDigest, ...]
    models: tuple[ModelName, ...] | None = None
    """None: every model of the installation; empty: none."""
    rate_limits: RateLimits = RateLimits()


class Budget(PolicyModel):
    id: Identifier
    name: str
    scope: Literal["tenant", "key"]
    subject: Identifier
    """Id of the tenant or key it binds."""
    limit_microusd: MicroUSD
    window: BudgetWindow
    timezone: str = "UTC"
    """IANA zone in which the calendar window begins."""
    mode: BudgetMode = "hard"


class PolicyDocument(PolicyModel):
    """Published settings of one scope: `global`, `tenants/<id>`, `keys/<id>` or `models/<name>`."""

    scope: str = Field(pattern=r"^(global|tenants/.+|keys/.+|models/.+)$", max_length=200)
    skills: dict[Slug, dict[str, Any]] = {}
    """Only the fields this scope sets; the rest is inherited. Checked against the skill's own
    schema by the compiler.
    """


class Snapshot(PolicyModel):
    schema_version: Literal[1] = 1
    version: int = Field(ge=1)
    """Rises with every change; never reused, also after a roll back."""
    policy_revision: int = Field(ge=0)
    """Published revision of the policy documents inside; inventory changes leave it as it is."""
    created_at_ms: int = Field(ge=0)
    tenants: tuple[Tenant, ...] = ()
    keys: tuple[Key, ...] = ()
    pools: tuple[Pool, ...] = ()
    budgets: tuple[Budget, ...] = ()
    documents: tuple[PolicyDocument, ...] = ()
