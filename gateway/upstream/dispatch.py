"""Which endpoint serves an attempt: filter, then score, then pick. Pure: decides and returns, sends nothing.

Picking is power of two choices over requests in flight: two candidates at random, the less busy one wins. That is
within a constant of knowing every queue and never herds, as picking the least busy of all would with stale figures.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from random import getrandbits
from typing import Any, Final, Literal, NamedTuple

from gateway.upstream.engines.table import Capabilities
from gateway.upstream.request_head import RequestHead
from gateway.upstream.transport import Transport
from policies.contract.facts import EndpointFacts, Outcome, RequestContext
from telemetry.events import Elimination
from telemetry.pricing import Rates

NEUTRAL: Final = Outcome("neutral")
ALREADY_TRIED: Final = "already_tried"
Mode = Literal["observe", "shadow", "enforce"]


class Lane:
    """The way to one address, with what is on it now. Outlives snapshots: the same address keeps its connections."""

    __slots__ = ("_make", "_transport", "in_flight")

    def __init__(self, make: Callable[[], Transport]) -> None:
        self._make = make
        self._transport: Transport | None = None
        self.in_flight = 0

    @property
    def transport(self) -> Transport:
        """Opened by the first request, inside the event loop."""
        if self._transport is None:
            self._transport = self._make()
        return self._transport


@dataclass(frozen=True, slots=True)
class PoolTerms:
    """What holds for every endpoint of a pool under one snapshot."""

    id: str
    upstream_model: str
    engine: Capabilities
    engine_name: str
    rates: Rates
    price_id: str
    max_output_tokens: int


class Candidate:
    """One endpoint that the plan allows."""

    __slots__ = ("facts", "heads", "id", "lane", "pool")

    def __init__(
        self, facts: EndpointFacts, pool: PoolTerms, heads: dict[bytes, RequestHead], lane: Lane
    ) -> None:
        """`heads`: one for each route the engine has."""
        self.facts, self.pool, self.heads, self.lane = facts, pool, heads, lane
        self.id = facts.id


@dataclass(frozen=True, slots=True)
class SkillStage:
    """One enabled skill of a plan. `failed` counts an exception and is told its slug."""

    slug: str
    mode: Mode
    runtime: Any
    closed_on_error: bool
    failed: Callable[[str, Exception], None]

    @property
    def acts(self) -> bool:
        return self.mode == "enforce"

    def ask(self, question: Callable[[], str]) -> str:
        """The skill's reason against; an exception becomes the declared direction."""
        try:
            return question()
        except Exception as error:  # noqa: BLE001 - a skill's fault must not decide by accident
            self.failed(self.slug, error)
            return "skill_failed" if self.closed_on_error else ""


class Stages(NamedTuple):
    """The stages of a plan that have a say in dispatch; empty tuples cost nothing."""

    filters: tuple[SkillStage, ...] = ()
    scorers: tuple[SkillStage, ...] = ()
    guards: tuple[SkillStage, ...] = ()


class Choice(NamedTuple):
    """`candidate` None: nobody may serve now; `eliminated` says why each may not."""

    candidate: Candidate | None
    eliminated: tuple[Elimination, ...]


def choose(
    candidates: Sequence[Candidate],
    stages: Stages,
    context: RequestContext | None,
    now_ns: int,
    tried: Candidate | None = None,
) -> Choice:
    """The endpoint of the next attempt. Every guard that allowed it must hear its outcome (`report`)."""
    first = _quick(candidates) if not stages.scorers and tried is None else None
    if first is not None and not (stages.filters or stages.guards):
        return Choice(first, ())
    eliminated: list[Elimination] = []
    if first is not None:
        found = _objection(first, stages, now_ns)
        if found is None:
            return Choice(first, ())
        eliminated.append(found)
    for candidate in _ranked(candidates, stages, context, first):
        found = (
            Elimination(candidate.id, "", ALREADY_TRIED)
            if candidate is tried
            else _objection(candidate, stages, now_ns)
        )
        if found is None:
            return Choice(candidate, tuple(eliminated))
        eliminated.append(found)
    return Choice(None, tuple(eliminated))


def report(guards: tuple[SkillStage, ...], endpoint_id: str, outcome: Outcome, now_ns: int) -> None:
    """Tell every guard how an allowed attempt ended; to be called exactly once an attempt."""
    for stage in guards:
        try:
            stage.runtime.on_outcome(endpoint_id, outcome, now_ns)
        except Exception as error:  # noqa: BLE001 - see SkillStage.ask
            stage.failed(stage.slug, error)


def _quick(candidates: Sequence[Candidate]) -> Candidate | None:
    """Two at random, the less busy one."""
    count = len(candidates)
    if count < 2:  # noqa: PLR2004 - nothing to choose between
        return candidates[0] if count else None
    bits = getrandbits(32)
    first, second = candidates[(bits & 0xFFFF) % count], candidates[(bits >> 16) % count]
    return second if second.lane.in_flight < first.lane.in_flight else first


def _objection(candidate: Candidate, stages: Stages, now_ns: int) -> Elimination | None:
    """Why `candidate` may not serve now. The fence is asked again for every attempt, guards last: they may reserve."""
    for stage in stages.filters:
        reason = stage.ask(partial(stage.runtime.rejects, candidate.facts))
        if reason and stage.acts:
            return Elimination(candidate.id, stage.slug, reason)
    asked: list[SkillStage] = []
    for stage in stages.guards:
        reason = stage.ask(partial(stage.runtime.allows, candidate.id, now_ns))
        if reason and stage.acts:
            report(tuple(asked), candidate.id, NEUTRAL, now_ns)
            return Elimination(candidate.id, stage.slug, reason)
        if not reason:
            asked.append(stage)
    return None


def _ranked(
    candidates: Sequence[Candidate],
    stages: Stages,
    context: RequestContext | None,
    known: Candidate | None,
) -> list[Candidate]:
    """Best score first, then least busy."""
    rest = [candidate for candidate in candidates if candidate is not known]
    scores = {candidate.id: _score(candidate, stages.scorers, context) for candidate in rest}
    rest.sort(key=lambda candidate: (-scores[candidate.id], candidate.lane.in_flight))
    return rest


def _score(
    candidate: Candidate, scorers: tuple[SkillStage, ...], context: RequestContext | None
) -> float:
    total = 0.0
    for stage in scorers:
        try:
            score = stage.runtime.score(context, candidate.facts)
        except Exception as error:  # noqa: BLE001 - see SkillStage.ask
            stage.failed(stage.slug, error)
            continue
        if stage.acts:
            total += score
    return total
