"""What the explainer will show of one request. Most of it is known when the plan is built."""

from __future__ import annotations

from gateway.upstream.dispatch import SkillStage
from telemetry.events import Attempt, Decisions, Elimination


def static_decisions(
    candidates: tuple[str, ...],
    eliminated: tuple[Elimination, ...],
    stages: tuple[SkillStage, ...],
) -> Decisions:
    """Of a request to which nothing unusual happens; shared by all of them."""
    return Decisions(
        candidates=candidates,
        eliminated=eliminated,
        stages=tuple((stage.slug, stage.mode, "next") for stage in stages),
    )


def with_facts(
    base: Decisions,
    eliminated: tuple[Elimination, ...],
    attempts: tuple[Attempt, ...],
    stripped: tuple[str, ...],
) -> Decisions:
    """`base` with what happened to this request."""
    stages = base.stages
    if eliminated:
        reasons = {found.skill: found.reason for found in eliminated if found.skill}
        stages = tuple((slug, mode, reasons.get(slug, was)) for slug, mode, was in stages)
    return Decisions(base.candidates, base.eliminated + eliminated, attempts, stages, stripped)


def with_stage(base: Decisions, slug: str, reason: str) -> Decisions:
    """`base` where the stage `slug` said `reason`."""
    stages = tuple((s, mode, reason if s == slug else was) for s, mode, was in base.stages)
    return Decisions(base.candidates, base.eliminated, base.attempts, stages, base.stripped_fields)
