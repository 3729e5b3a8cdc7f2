"""One governed request: who, under which policy, at what worst cost, to which endpoint. Synchronous, without I/O.

Order is a safety property: key, pinned snapshot, body, plan, rate, money, guards and fence, record, send.
Only a request whose hold does not fit this worker's lease leaves this path and waits as a task (`relay`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from time import monotonic_ns, time_ns
from typing import Final, Protocol

from gateway.events.spool import Spool, SpoolFullError
from gateway.identity.lookup import Digester
from gateway.identity.revocation import Revocations
from gateway.limits.keeper import LeaseKeeper
from gateway.metrics import Metrics
from gateway.pipeline.context import Call, Ids
from gateway.pipeline.decisions import with_facts, with_stage
from gateway.pipeline.plan import KeyRecord, RequestPlan, RuntimePlan
from gateway.pipeline.settle import End, Settler
from gateway.protocols.errors import Refused, render_openai
from gateway.server.exchange import Exchange
from gateway.server.headers import credential
from gateway.snapshot.store import SnapshotStore
from gateway.upstream.dispatch import Candidate, SkillStage, choose
from policies.contract.verdict import Verdict
from telemetry.events import Decisions, RequestOpened, RequestProgressed, RequestRefused, encode

TEMPLATE_TOKENS_BOUND: Final = 64
"""Input tokens that a chat template adds of its own, such as a system prompt with the date. The JSON around each
message is longer than the template's marks between turns, so these need nothing."""
TOOLS_TOKENS_BOUND: Final = 256
"""What a template adds to tell a model how to call tools."""
LOW_WATER: Final = 4
"""A lease that could not pay for this many more such requests is topped up ahead."""
TOP_UP: Final = 16
_NO_DECISIONS: Final = Decisions()
RETRY_ADVICE_MS: Final = 1000

log: Final = logging.getLogger(__name__)


class UnderWay(Protocol):
    """A request in progress, as the worker sees it."""

    def cut(self) -> None:
        """End now, with an error the caller can read."""
        ...

    def rebudget(self) -> None:
        """A new snapshot is in force: be carried by its budgets too."""
        ...


class Engine:
    """The pipeline both doors call. One a worker."""

    def __init__(
        self,
        store: SnapshotStore[RuntimePlan],
        pepper: bytes,
        spool: Spool,
        keeper: LeaseKeeper,
        metrics: Metrics,
    ) -> None:
        self.store, self.spool, self.keeper, self.metrics = store, spool, keeper, metrics
        self.revocations = Revocations()
        self.settler = Settler(spool, metrics)
        self.ids = Ids()
        self.draining = False
        self.active: set[UnderWay] = set()
        """Requests in progress, so that a stopping worker can end them properly."""
        self._digest = Digester(pepper)

    # -- who -------------------------------------------------------------------------------------------------------

    def identify(self, exchange: Exchange) -> Call:
        """The caller, by key alone, pinned to the snapshot in force now. Raises Refused."""
        runtime = self.store.current
        if runtime is None:
            raise Refused("not_ready", retry_after_ms=RETRY_ADVICE_MS)
        began_ns = monotonic_ns()
        call = Call(runtime, self.authenticate(runtime, exchange), began_ns)
        self.ids.identify(call, exchange.singletons.get(b"traceparent"))
        return call

    def authenticate(self, runtime: RuntimePlan, exchange: Exchange) -> KeyRecord:
        digest = self._digest(credential(exchange))
        if digest in self.revocations.digests:
            raise Refused("key_revoked")
        return runtime.ring.find(digest, time_ns() // 1_000_000)

    # -- may it, and what may it cost --------------------------------------------------------------------------------

    def admit(self, call: Call, body: bytes) -> bool:
        """Judge the request and hold its worst cost. False: the money has to be fetched first (`fetch_money`).

        Raises Refused. Whatever happens after this was called, `settle` or `release` must be, once.
        """
        if self.draining:
            raise Refused("draining", retry_after_ms=RETRY_ADVICE_MS)
        request = call.request = call.dialect.parse(body)
        plan = call.plan = call.runtime.plan_for(call.key, request.model)
        if plan.refusal is not None:
            raise Refused(plan.refusal)
        if plan.admitters or plan.filters:
            self._ask_skills(call, plan)
        self._bound(call, body)
        call.rate_cost = call.key.limiter.enter(
            call.began_ns, call.input_estimate + call.output_cap
        )
        call.entered = True
        return self._reserve(call)

    def _bound(self, call: Call, body: bytes) -> None:
        """Upper bounds without a tokeniser: a byte is at least as much as a token, images and the like count extra."""
        request, plan = call.request, call.plan
        call.input_bound = len(body) + TEMPLATE_TOKENS_BOUND + request.media_tokens
        if "tools" in request.document or "functions" in request.document:
            call.input_bound += TOOLS_TOKENS_BOUND
        call.input_estimate = max(1, len(body) // 4)
        cap = request.output_limit or max(pool.max_output_tokens for pool in plan.pools)
        call.output_cap = cap * request.choices
        call.hold = plan.hold(call.input_bound, request.output_limit, request.choices)

    def _reserve(self, call: Call) -> bool:
        purse, hold = call.key.purse, call.hold
        if purse is None:
            return True
        purse.current(time_ns() // 1_000_000)
        if purse.waiting or not purse.can_pay(hold):
            return False
        call.leases = purse.take(hold, call.began_ns)
        for lease in purse.hard:
            if lease.free < hold * LOW_WATER and not lease.pressed:
                self.keeper.top_up(purse, hold * TOP_UP)
                break
        return True

    async def fetch_money(self, call: Call) -> None:
        """Wait for a lease that carries the request. Raises Refused with the budget's name."""
        assert call.key.purse is not None
        call.leases = await self.keeper.wait(call.key.purse, call.hold)

    def join_budgets(self, call: Call) -> None:
        """Carry a request that an older snapshot admitted in the budgets in force now, too: each counts its spend."""
        runtime = self.store.current
        purse = runtime.purses.get(call.key.id) if runtime is not None else None
        if purse is not None and purse is not call.key.purse:
            now_ms = time_ns() // 1_000_000
            call.leases = purse.join(call.leases, call.hold, now_ms, monotonic_ns())

    def release(self, call: Call) -> None:
        """Give back rate and money of a request that was never dispatched."""
        self.settler.settle(call, End(0, "upstream_refused"))

    # -- to whom -----------------------------------------------------------------------------------------------------

    def open(self, call: Call) -> Candidate:
        """Choose the first endpoint and record the request. Raises Refused."""
        candidate = self.next_candidate(call)
        if call.runtime is not self.store.current:
            self.join_budgets(call)
        self._record_opening(call, call.plan, candidate)
        return candidate

    def next_candidate(self, call: Call) -> Candidate:
        """The endpoint of the next attempt, counted in. Raises Refused when there is none."""
        plan, now_ns = call.plan, monotonic_ns()
        context = call.skill_context() if plan.stages.scorers else None
        candidate, eliminated = choose(
            plan.candidates, plan.stages, context, now_ns, call.candidate
        )
        if eliminated:
            call.eliminated += eliminated
        if candidate is None:
            raise Refused(_why_nobody(call), retry_after_ms=RETRY_ADVICE_MS)
        call.candidate, call.attempt_began_ns, call.guarded = candidate, now_ns, True
        call.engine_status = 0
        call.tried += 1
        candidate.lane.in_flight += 1
        return candidate

    def _record_opening(self, call: Call, plan: RequestPlan, candidate: Candidate) -> None:
        """On record before the engine hears of it: whatever happens then, the request is billed once."""
        call.opened_at_ms = time_ns() // 1_000_000
        pool = candidate.pool
        event = RequestOpened(
            call.request_id.decode(),
            call.key.tenant_id,
            call.key.id,
            plan.model,
            pool.id,
            candidate.id,
            call.opened_at_ms,
            call.input_bound,
            call.hold,
            pool.price_id,
            pool.rates.input,
            pool.rates.output,
            call.runtime.version,
            call.request.stream,
            tuple([lease.budget_id for lease in call.leases]),
        )
        try:
            call.segment = self.spool.open(encode(event))
        except SpoolFullError:
            raise Refused("spend_unrecordable", retry_after_ms=RETRY_ADVICE_MS) from None

    def payload(self, call: Call, candidate: Candidate) -> bytes:
        """The whole HTTP request for `candidate`. Raises Refused for what its engine cannot do."""
        pool, request = candidate.pool, call.request
        cap = request.output_limit or pool.max_output_tokens
        body = call.dialect.payload(request, pool.upstream_model, cap, pool.engine)
        return candidate.heads[call.dialect.route].render(call.request_id, call.span, body)

    # -- skills that judge requests ----------------------------------------------------------------------------------

    def _ask_skills(self, call: Call, plan: RequestPlan) -> None:
        context = call.skill_context()
        document = call.request.document
        for stage in plan.admitters:
            self._heed(call, stage, _verdict(stage, partial(stage.runtime.admit, context)))
        for stage in plan.filters:
            asked = partial(stage.runtime.filter, context, document)
            self._heed(call, stage, _verdict(stage, asked))

    def _heed(self, call: Call, stage: SkillStage, verdict: Verdict | None) -> None:
        """Act on a verdict if the stage acts; record it in any case."""
        if verdict is None:
            if stage.closed_on_error and stage.acts:
                raise Refused("internal_error", details={"skill": stage.slug})
            return
        if verdict.kind == "next":
            return
        call.decisions = with_stage(
            call.decisions or call.plan.decisions, stage.slug, verdict.reason
        )
        if stage.acts:
            raise Refused(
                "content_blocked", details={"skill": stage.slug, "reason": verdict.reason}
            )

    # -- what is told --------------------------------------------------------------------------------------------------

    def progressed(self, call: Call, output_tokens: int) -> None:
        self.spool.note(encode(RequestProgressed(call.request_id.decode(), output_tokens)))

    def refused(self, call: Call | None, refused: Refused) -> None:
        """Count a refusal and, for a known key, leave an event that explains it."""
        self.metrics.refusals[refused.code] += 1
        if call is None:
            return
        plan = getattr(call, "plan", None)
        request = getattr(call, "request", None)
        base = call.decisions or (plan.decisions if plan else None)
        event = RequestRefused(
            call.request_id.decode(),
            call.key.tenant_id,
            call.key.id,
            plan.model if plan else "",
            time_ns() // 1_000_000,
            refused.status,
            refused.code,
            refused.message,
            call.runtime.version,
            call.runtime.policy_revision,
            with_facts(
                base or _NO_DECISIONS,
                call.eliminated,
                call.attempts,
                request.stripped if request else (),
            ),
        )
        self.spool.note(encode(event))

    def render(self, refused: Refused, call: Call | None) -> bytes:
        if call is None:
            return render_openai(refused, self.ids.request_id().decode(), self._version())
        return render_openai(refused, call.request_id.decode(), call.runtime.version)

    def _version(self) -> int | None:
        current = self.store.current
        return current.version if current is not None else None


def _verdict(stage: SkillStage, question: Callable[[], Verdict]) -> Verdict | None:
    """None: the skill failed."""
    try:
        return question()
    except Exception as error:  # noqa: BLE001 - a skill's fault must not decide by accident
        stage.failed(stage.slug, error)
        return None


def _why_nobody(call: Call) -> str:
    guards = {stage.slug for stage in call.plan.stages.guards}
    rejected = [found for found in call.eliminated if found.skill]
    if rejected and all(found.skill in guards for found in rejected):
        return "circuit_open"
    if any(found.skill == "geo_residency" for found in rejected):
        return "region_not_allowed"
    return "upstream_unavailable"
