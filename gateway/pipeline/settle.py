"""The one end of every request: what it cost, who is told, what is written. Idempotent, on every exit."""

from __future__ import annotations

from time import monotonic_ns, time_ns
from typing import Final, NamedTuple

from gateway.events.spool import Spool
from gateway.metrics import Metrics
from gateway.pipeline.context import Call, Usage
from gateway.pipeline.decisions import with_facts
from gateway.protocols.usage import TokenUsage
from gateway.upstream.dispatch import Candidate, report
from policies.contract.facts import Outcome
from telemetry import events
from telemetry.events import Attempt, RequestFinished, encode
from telemetry.pricing import Tokens, billed_microusd

OK_STATUS: Final = 200
NOTHING: Final = TokenUsage(0, 0, 0)
NEUTRAL: Final = Outcome("neutral")


class End(NamedTuple):
    """How a request ended, as the caller saw it."""

    status: int
    outcome: events.Outcome
    error_code: str = ""
    produced: bool = False
    """Whether the engine may have produced something that was not reported as usage."""


class Settler:
    def __init__(self, spool: Spool, metrics: Metrics) -> None:
        self._spool, self._metrics = spool, metrics

    def end_attempt(self, call: Call, outcome: Outcome, error: str = "") -> None:
        """The current attempt is over; tells the guards once and notes it."""
        candidate = call.candidate
        if candidate is None or not call.guarded:
            return
        call.guarded = False
        candidate.lane.in_flight -= 1
        now_ns = monotonic_ns()
        took_us = (now_ns - call.attempt_began_ns) // 1000
        guards = call.plan.stages.guards
        if guards:
            first_us = (call.first_ns - call.attempt_began_ns) // 1000 if call.first_ns else 0
            told = Outcome(outcome.kind, took_us, max(0, first_us), outcome.retry_after_ms)
            report(guards, candidate.id, told, now_ns)
        call.attempts += (Attempt(candidate.id, call.engine_status, error, took_us),)

    def settle(self, call: Call, end: End) -> int:
        """Give back what was not used, leave a record; the micro-dollars billed. Only the first call counts."""
        if call.settled:
            return 0
        call.settled = True
        self.end_attempt(call, NEUTRAL, end.error_code)
        usage, billed = self._charge(call, end)
        for lease in call.leases:
            lease.settle(call.hold, billed)
        call.leases = ()
        if call.entered:
            call.key.limiter.leave(call.rate_cost, usage.input + usage.output)
        if call.segment is not None and call.candidate is not None:
            self._record(call, call.candidate, end, usage, billed)
        return billed

    def _charge(self, call: Call, end: End) -> tuple[Usage, int]:
        candidate = call.candidate
        if candidate is None or call.segment is None:
            return Usage("none", NOTHING), 0
        rates = candidate.pool.rates
        if call.usage is not None:
            usage = Usage("engine", call.usage)
        elif call.output_events:
            usage = Usage("counted", TokenUsage(call.input_estimate, call.output_events, 0))
        elif end.produced:
            # An answer without usage costs the worst case: nothing here may be had for free.
            cap = call.output_cap
            return Usage("estimated", TokenUsage(call.input_bound, cap, 0)), call.hold
        else:
            return Usage("none", NOTHING), 0
        billed = billed_microusd(rates, Tokens(usage.input, usage.output, usage.cached))
        return usage, billed if billed <= call.hold else self._beyond_hold(call, candidate, billed)

    def _beyond_hold(self, call: Call, candidate: Candidate, billed: int) -> int:
        """What is billed when the engine reports more than it could have used.

        A hard budget is never overdrawn: beyond the hold it pays what nobody else has reserved here, and no more. The
        row keeps the tokens that were reported, and ingest raises a finding if the bill falls short of them.
        """
        self._metrics.beyond_hold[candidate.pool.id] += 1
        spare = [max(0, lease.free) for lease in call.leases if lease.terms.mode == "hard"]
        return min(billed, call.hold + min(spare)) if spare else billed

    def _record(
        self, call: Call, candidate: Candidate, end: End, usage: Usage, billed: int
    ) -> None:
        assert call.segment is not None
        now_ns, plan, runtime, pool = monotonic_ns(), call.plan, call.runtime, candidate.pool
        latency_us = (now_ns - call.began_ns) // 1000
        first_us = (call.first_ns - call.began_ns) // 1000 if call.first_ns else 0
        decisions = call.decisions or plan.decisions
        event = RequestFinished(
            call.request_id.decode(),
            call.tried,
            "usage",
            call.key.tenant_id,
            call.key.id,
            plan.model,
            pool.id,
            candidate.id,
            pool.engine_name,
            candidate.facts.region or "",
            call.opened_at_ms,
            max(call.opened_at_ms, time_ns() // 1_000_000),
            end.status,
            end.outcome,
            end.error_code,
            usage.input,
            usage.cached,
            usage.output,
            usage.source,
            call.hold,
            billed,
            pool.price_id,
            pool.rates.input,
            pool.rates.output,
            pool.rates.cached_input,
            runtime.version,
            runtime.policy_revision,
            latency_us,
            first_us,
            call.request.stream,
            with_facts(decisions, call.eliminated, call.attempts, call.request.stripped),
        )
        self._spool.finish(call.segment, encode(event))
        call.segment = None
        self._count(call, end, usage, billed, (latency_us, first_us))

    def _count(
        self, call: Call, end: End, usage: Usage, billed: int, took_us: tuple[int, int]
    ) -> None:
        series = call.plan.series
        if end.status != OK_STATUS:
            series.failed += 1
        series.input_tokens += usage.input
        series.output_tokens += usage.output
        series.billed_microusd += billed
        series.record(*took_us)
        self._metrics.outcomes[end.outcome] += 1
