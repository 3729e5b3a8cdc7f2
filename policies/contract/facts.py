"""What skills may know about the installation. Plain data, filled by the gateway from the snapshot
and from telemetry.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from policies.schema.snapshot import Endpoint, Pool, Tenant


@dataclass(frozen=True, slots=True)
class EndpointFacts:
    """Facts of one endpoint that do not change while a snapshot is in force. None is unknown."""

    id: str
    pool_id: str
    model: str
    engine: str
    region: str | None

    @classmethod
    def of(cls, pool: Pool, endpoint: Endpoint) -> EndpointFacts:
        return cls(endpoint.id, pool.id, pool.model, pool.engine, endpoint.region)


@dataclass(frozen=True, slots=True)
class TenantFacts:
    id: str
    allowed_regions: tuple[str, ...] | None = None
    """The tenant's own fence; None: it has none. A skill's settings may only tighten it."""

    @classmethod
    def of(cls, tenant: Tenant) -> TenantFacts:
        fence = tenant.geo_fence
        return cls(tenant.id, None if fence is None else fence.allowed_regions)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one attempt at one endpoint ended, judged at the end of the stream and never at its
    head.
    """

    kind: Literal["success", "failure", "slow", "throttle", "credential", "neutral"]
    latency_us: int = 0
    first_token_us: int = 0
    retry_after_ms: int = 0


@dataclass(frozen=True, slots=True)
class GpuFacts:
    """One GPU as its driver reports it. A reading that is absent is unknown, never 0."""

    uuid: str
    node: str
    name: str
    readings: dict[str, float]
    """DCGM field name -> value: `gpu_util` percent, `fb_used` and `fb_total` bytes, `power_usage`
    watts, `gpu_temp` °C …
    """
    unsupported: tuple[str, ...] = ()
    xid_errors: tuple[int, ...] = ()
    """XID codes since the last sample."""
    at_ms: int = 0


@dataclass(frozen=True, slots=True)
class Finding:
    """Something an observer wants a person, or another skill, to see."""

    code: str
    severity: Literal["info", "warning", "critical"]
    subject: str
    message: str


@dataclass(slots=True)
class RequestContext:
    """What skills read of one request. Pinned to one snapshot; made by the gateway, one a
    request.
    """

    tenant_id: str
    key_id: str
    model: str
    snapshot_version: int
    stream: bool = False
    now_ns: int = 0
    """Monotonic nanoseconds at entry."""
    data: dict[str, object] = field(default_factory=dict)
    """Values skills declare with `writes` and later ones with `reads`."""
