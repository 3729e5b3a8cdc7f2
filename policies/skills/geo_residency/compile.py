"""From settings and the tenant's own fence to one set of regions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from policies.contract.facts import EndpointFacts, Finding, TenantFacts
from policies.skills.geo_residency.config import GeoResidencyConfig


@dataclass(frozen=True, slots=True)
class GeoPlan:
    allowed_regions: frozenset[str] | None
    """None: every known region. Empty: none."""

    def rejects(self, region: str | None) -> str:
        """Stable code, or empty for a region inside the fence."""
        if region is None:
            return "region_unknown"
        if self.allowed_regions is None or region in self.allowed_regions:
            return ""
        return "region_not_allowed"


def compile_plan(config: GeoResidencyConfig, tenant: TenantFacts) -> GeoPlan:
    """The intersection: neither the tenant nor a policy can widen what the other allows."""
    fences = [
        frozenset(regions)
        for regions in (config.allowed_regions, tenant.allowed_regions)
        if regions is not None
    ]
    return GeoPlan(_intersection(fences) if fences else None)


def bound_by(tenant: TenantFacts) -> bool:
    """A tenant's fence is inventory: it holds at once, also where the policy says off."""
    return tenant.allowed_regions is not None


def warns(
    plan: GeoPlan, tenant: TenantFacts, endpoints: Sequence[EndpointFacts]
) -> Sequence[Finding]:
    """Say so when a fence leaves a model without any endpoint: its requests will be refused."""
    if not endpoints or any(not plan.rejects(endpoint.region) for endpoint in endpoints):
        return ()
    model = endpoints[0].model
    message = f"The fence leaves no endpoint for model {model}; its requests will be refused."
    return (Finding("fence_leaves_no_endpoint", "warning", f"{tenant.id}/{model}", message),)


def _intersection(fences: Iterable[frozenset[str]]) -> frozenset[str]:
    first, *others = fences
    return first.intersection(*others)
