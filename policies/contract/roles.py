"""The eight roles. A skill plays exactly one; each is a Protocol of one or two plain methods, none
of which waits.

A runtime is built as `Runtime(plan, host)` once per snapshot and compiled plan, and serves many
requests: it holds no state of a request. The engine turns an exception into the skill's declared
failure direction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal, Protocol, runtime_checkable

from policies.contract.facts import EndpointFacts, Finding, GpuFacts, Outcome, RequestContext
from policies.contract.verdict import Verdict

Role = Literal[
    "admitter",
    "request_filter",
    "router",
    "endpoint_filter",
    "endpoint_scorer",
    "upstream_guard",
    "observer",
    "planner",
]


@runtime_checkable
class Admitter(Protocol):
    def admit(self, context: RequestContext, /) -> Verdict:
        """Before the body is looked at."""
        ...


@runtime_checkable
class RequestFilter(Protocol):
    def filter(self, context: RequestContext, document: dict[str, Any], /) -> Verdict:
        """May change `document` (the parsed request) in place, answer it, or refuse it."""
        ...


@runtime_checkable
class Router(Protocol):
    def route(self, context: RequestContext, models: Sequence[str], /) -> str:
        """The model that shall serve, one of `models`."""
        ...


@runtime_checkable
class EndpointFilter(Protocol):
    def rejects(self, endpoint: EndpointFacts, /) -> str:
        """Why `endpoint` may not serve under this plan, as a stable code; empty: it may.

        Asked once per endpoint when the plan is built, and again for the endpoint of every attempt,
        so that no retry or fallback can leave the fence.
        """
        ...


@runtime_checkable
class EndpointScorer(Protocol):
    def score(self, context: RequestContext, endpoint: EndpointFacts, /) -> float:
        """Higher is better, in [0, 1]."""
        ...


@runtime_checkable
class UpstreamGuard(Protocol):
    def allows(self, endpoint_id: str, now_ns: int, /) -> str:
        """Why an attempt may not go to this endpoint now; empty: it may. An allowed attempt must be
        reported back.
        """
        ...

    def on_outcome(self, endpoint_id: str, outcome: Outcome, now_ns: int, /) -> None:
        """Called exactly once for each allowed attempt, whatever happened to it."""
        ...


@runtime_checkable
class Observer(Protocol):
    def observe(self, gpu: GpuFacts, /) -> Sequence[Finding]: ...


@runtime_checkable
class Planner(Protocol):
    def plan(self, observed: dict[str, Any], /) -> dict[str, Any]:
        """Desired state from observed state: a pure function, run by `gateway.controller`."""
        ...


ROLE_PROTOCOLS: Final[dict[Role, type[Any]]] = {
    "admitter": Admitter,
    "request_filter": RequestFilter,
    "router": Router,
    "endpoint_filter": EndpointFilter,
    "endpoint_scorer": EndpointScorer,
    "upstream_guard": UpstreamGuard,
    "observer": Observer,
    "planner": Planner,
}
