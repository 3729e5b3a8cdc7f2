"""The fence at work: one set look-up an endpoint."""

from __future__ import annotations

from policies.contract.facts import EndpointFacts
from policies.contract.host import Host
from policies.skills.geo_residency.compile import GeoPlan


class GeoResidency:
    """Stateless. It answers the same for the same endpoint as long as the plan lives, so the
    gateway may keep the answer, but must ask for the endpoint of every attempt.
    """

    __slots__ = ("_plan",)

    def __init__(self, plan: GeoPlan, _host: Host) -> None:
        self._plan = plan

    def rejects(self, endpoint: EndpointFacts, /) -> str:
        return self._plan.rejects(endpoint.region)
