"""State of one request from its header block to its settled end."""

from __future__ import annotations

import os
from itertools import count
from typing import Final

from gateway.events.segment import Segment
from gateway.limits.leases import Lease
from gateway.pipeline.plan import KeyRecord, RequestPlan, RuntimePlan
from gateway.protocols.errors import Refused
from gateway.protocols.inference import Dialect, InferenceRequest
from gateway.protocols.usage import TokenUsage
from gateway.upstream.dispatch import Candidate
from policies.contract.facts import RequestContext
from telemetry.events import Attempt, Decisions, Elimination, UsageSource

_SPREAD: Final = 0x9E3779B97F4A7C15
_PARENT_BYTES: Final = 55


class Call:
    """Made when the caller is known, pinned to one snapshot from then on, settled exactly once."""

    __slots__ = (
        "attempt_began_ns",
        "attempts",
        "began_ns",
        "candidate",
        "decisions",
        "dialect",
        "eliminated",
        "engine_status",
        "entered",
        "first_ns",
        "guarded",
        "hold",
        "input_bound",
        "input_estimate",
        "key",
        "leases",
        "opened_at_ms",
        "output_cap",
        "output_events",
        "plan",
        "rate_cost",
        "request",
        "request_id",
        "runtime",
        "segment",
        "settled",
        "span",
        "tried",
        "usage",
    )

    plan: RequestPlan
    request: InferenceRequest
    dialect: Dialect

    def __init__(self, runtime: RuntimePlan, key: KeyRecord, began_ns: int) -> None:
        self.runtime, self.key, self.began_ns = runtime, key, began_ns
        self.request_id = b""
        self.span = b""
        self.candidate: Candidate | None = None
        self.tried = 0
        """Attempts begun."""
        self.guarded = False
        """The current attempt was allowed by the guards and not yet reported back to them."""
        self.attempt_began_ns = self.first_ns = self.opened_at_ms = 0
        self.engine_status = 0
        self.attempts: tuple[Attempt, ...] = ()
        self.eliminated: tuple[Elimination, ...] = ()
        self.decisions: Decisions | None = None
        """None: those of the plan."""
        self.hold = self.rate_cost = self.output_cap = 0
        self.input_bound = self.input_estimate = 0
        self.leases: tuple[Lease, ...] = ()
        self.segment: Segment | None = None
        """Where the opening was recorded; None: not opened."""
        self.usage: TokenUsage | None = None
        self.output_events = 0
        self.entered = self.settled = False
        """Counted into the key's rate limits; over."""

    @property
    def stream(self) -> bool:
        return self.request.stream

    def check_output(self, events: int) -> None:
        """Raises Refused when a hard budget's hold pays for no more: each event is a token at least."""
        if events > self.output_cap and any(lease.terms.mode == "hard" for lease in self.leases):
            raise Refused(
                "budget_exceeded",
                "The model's engine produced more than was asked for and reserved; it was stopped.",
            )

    def skill_context(self) -> RequestContext:
        """What skills may read; made only for plans whose stages read it."""
        return RequestContext(
            tenant_id=self.key.tenant_id,
            key_id=self.key.id,
            model=self.plan.model,
            snapshot_version=self.runtime.version,
            stream=self.request.stream,
            now_ns=self.began_ns,
        )


class Ids:
    """Request ids and trace spans: a random prefix a process and a counter, for a tenth of the price of a UUID."""

    __slots__ = ("_next", "_prefix")

    def __init__(self) -> None:
        self._prefix = os.urandom(8).hex().encode()
        self._next = count(1).__next__

    def request_id(self) -> bytes:
        return b"req_%b%012x" % (self._prefix, self._next())

    def identify(self, call: Call, parent: bytes | None) -> None:
        """Give `call` its id, and a span under the caller's trace if it sent a valid one."""
        number = self._next()
        call.request_id = b"req_%b%012x" % (self._prefix, number)
        trace = _trace_of(parent) if parent is not None else None
        if trace is None:
            trace = b"%b%016x" % (self._prefix, number)
        call.span = b"00-%b-%016x-01" % (trace, (number * _SPREAD) & 0xFFFFFFFFFFFFFFFF)


class Usage:
    """What a request is charged for, and how it is known."""

    __slots__ = ("cached", "input", "output", "source")

    def __init__(self, source: UsageSource, tokens: TokenUsage) -> None:
        self.source: UsageSource = source
        self.input, self.output, self.cached = tokens


def _trace_of(parent: bytes) -> bytes | None:
    """Trace id of a W3C `traceparent` of version 00."""
    if len(parent) != _PARENT_BYTES or parent[:3] != b"00-" or parent[35:36] != b"-":
        return None
    trace = parent[3:35]
    try:
        number = int(trace, 16)
    except ValueError:
        return None
    return trace.lower() if number and trace.isalnum() else None
