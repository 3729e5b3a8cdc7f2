"""From a snapshot to what is run: `RuntimePlan`, built whole in a thread and swapped by one reference.

All that can be known before a request comes is worked out here, once for each (key, model): who may serve it, at what
price, under which stages, with which response head. Plans are made for models that exist and kept while the snapshot
is in force; names that clients make up are never remembered.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from gateway.identity.lookup import KeyRing
from gateway.limits.leases import BudgetTerms, Purse
from gateway.limits.rates import Limiter
from gateway.metrics import Series
from gateway.pipeline.decisions import static_decisions
from gateway.protocols.errors import Refused
from gateway.upstream.dispatch import Candidate, PoolTerms, SkillStage, Stages
from policies.compiler import PolicyIndex, stages
from policies.contract.facts import TenantFacts
from policies.contract.manifest import Skill
from policies.schema.snapshot import Key
from telemetry.events import Elimination
from telemetry.pricing import TOKENS_PER_PRICE

UNPRICED: Final = "price_unknown"


class KeyRecord:
    """One key under one snapshot."""

    __slots__ = ("id", "limiter", "models", "plans", "purse", "tenant", "tenant_id")

    def __init__(
        self, key: Key, tenant: TenantFacts, limiter: Limiter, purse: Purse | None
    ) -> None:
        self.id, self.tenant_id, self.tenant = key.id, key.tenant, tenant
        self.models = None if key.models is None else frozenset(key.models)
        self.limiter, self.purse = limiter, purse
        self.plans: dict[str, RequestPlan] = {}


class ModelOffer:
    """Everything that serves one public model, before anybody asks for it."""

    __slots__ = ("candidates", "created_s", "model", "unpriced")

    def __init__(self, model: str, created_s: int) -> None:
        self.model, self.created_s = model, created_s
        self.candidates: list[Candidate] = []
        self.unpriced: list[str] = []
        """Endpoints whose pool has no price."""


class StageFactory:
    """Runtimes of one snapshot: equal compiled plans of a skill share one."""

    def __init__(self, host: Any) -> None:
        self._host = host
        self._runtimes: dict[tuple[str, Any], Any] = {}
        self._classes: dict[str, type[Any]] = {}

    def make(self, skill: Skill, mode: Any, plan: Any) -> SkillStage:
        closed = skill.on_error == "closed"
        return SkillStage(skill.slug, mode, self._runtime(skill, plan), closed, self._host.failed)

    def _runtime(self, skill: Skill, plan: Any) -> Any:
        cls = self._classes.get(skill.slug)
        if cls is None:
            cls = self._classes[skill.slug] = skill.load_runtime()
        key = skill.slug, plan
        try:
            known = self._runtimes.get(key)
        except (
            TypeError
        ):  # a plan with a mapping inside cannot be compared cheaply, so it is not shared
            return cls(plan, self._host)
        if known is None:
            known = self._runtimes[key] = cls(plan, self._host)
        return known


class RequestPlan:
    """All that policy says about one (key, model). Holds no way back to its key: a dropped plan needs no collector."""

    __slots__ = (
        "admitters",
        "candidates",
        "decisions",
        "filters",
        "model",
        "pools",
        "refusal",
        "series",
        "stages",
    )

    def __init__(
        self,
        offer: ModelOffer,
        enabled: tuple[tuple[Skill, SkillStage], ...],
        series: Series,
    ) -> None:
        self.model, self.series = offer.model, series
        self.stages = Stages(
            _of_role(enabled, "endpoint_filter"),
            _of_role(enabled, "endpoint_scorer"),
            _of_role(enabled, "upstream_guard"),
        )
        self.admitters = _of_role(enabled, "admitter")
        self.filters = _of_role(enabled, "request_filter")
        kept, eliminated = _fenced(offer, self.stages.filters)
        self.candidates: tuple[Candidate, ...] = kept
        self.pools: tuple[PoolTerms, ...] = tuple({c.pool.id: c.pool for c in kept}.values())
        everyone = tuple(c.id for c in offer.candidates) + tuple(offer.unpriced)
        shown = tuple(stage for _, stage in enabled)
        self.decisions = static_decisions(everyone, eliminated, shown)
        self.refusal = None if kept else _nobody(offer, eliminated)
        """Code of the refusal when no endpoint may serve at all."""

    def hold(self, input_bound: int, output_limit: int | None, choices: int) -> int:
        """Micro-dollars of the worst case over every pool that may serve."""
        worst = 0
        for pool in self.pools:
            rates = pool.rates
            cap = (output_limit or pool.max_output_tokens) * choices
            dearest = max(rates.input, rates.cached_input)
            cost = input_bound * dearest + cap * rates.output
            worst = max(cost, worst)
        return -(-worst // TOKENS_PER_PRICE)


class RuntimePlan:
    """Everything requests are judged by while one snapshot is in force. Replaced as a whole, never changed."""

    __slots__ = (
        "_factory",
        "_index",
        "_make_series",
        "budgets",
        "created_at_ms",
        "hard_budgets",
        "observers",
        "offers",
        "policy_revision",
        "purses",
        "ring",
        "sha256",
        "version",
    )

    def __init__(
        self,
        ring: KeyRing[KeyRecord],
        offers: dict[str, ModelOffer],
        index: PolicyIndex,
        factory: StageFactory,
        make_series: Any,
    ) -> None:
        self.ring, self.offers = ring, offers
        self._index, self._factory, self._make_series = index, factory, make_series
        self.version = self.policy_revision = self.created_at_ms = 0
        self.sha256 = ""
        self.observers: tuple[tuple[SkillStage, Any], ...] = ()
        self.hard_budgets: tuple[BudgetTerms, ...] = ()
        self.budgets: dict[str, BudgetTerms] = {}
        self.purses: dict[str, Purse] = {}
        """By key id; a key without budgets has none."""

    def plan_for(self, key: KeyRecord, model: str) -> RequestPlan:
        """Raises Refused `model_not_found` or `model_not_allowed`."""
        plan = key.plans.get(model)
        if plan is None:
            plan = self._make_plan(key, model)
        return plan

    def _make_plan(self, key: KeyRecord, model: str) -> RequestPlan:
        offer = self.offers.get(model)
        if offer is None:
            raise Refused("model_not_found", param="model")
        if key.models is not None and model not in key.models:
            raise Refused("model_not_allowed", param="model", details=_allowed(key))
        enabled = tuple(
            (stage.skill, self._factory.make(stage.skill, stage.mode, stage.plan))
            for stage in stages(self._index, key.tenant, key.id, model)
        )
        series = self._make_series(key.tenant_id, key.id, model)
        plan = key.plans[model] = RequestPlan(offer, enabled, series)
        return plan

    def models_for(self, key: KeyRecord) -> list[ModelOffer]:
        """What the key may use now: allowed to it, priced, and inside its fence."""
        return [
            offer
            for model, offer in sorted(self.offers.items())
            if (key.models is None or model in key.models)
            and self.plan_for(key, model).refusal is None
        ]


def _allowed(key: KeyRecord) -> dict[str, Any]:
    return {"allowed_models": sorted(key.models or ())[:50]}


def _of_role(enabled: tuple[tuple[Skill, SkillStage], ...], role: str) -> tuple[SkillStage, ...]:
    return tuple(stage for skill, stage in enabled if skill.role == role)


def _fenced(
    offer: ModelOffer, filters: tuple[SkillStage, ...]
) -> tuple[tuple[Candidate, ...], tuple[Elimination, ...]]:
    """Who may serve, and why each of the others may not."""
    kept: list[Candidate] = []
    eliminated = [Elimination(endpoint, "", UNPRICED) for endpoint in offer.unpriced]
    for candidate in offer.candidates:
        reason = _rejection(candidate, filters)
        if reason is None:
            kept.append(candidate)
        else:
            eliminated.append(reason)
    return tuple(kept), tuple(eliminated)


def _rejection(candidate: Candidate, filters: tuple[SkillStage, ...]) -> Elimination | None:
    for stage in filters:
        reason = stage.ask(partial(stage.runtime.rejects, candidate.facts))
        if reason and stage.acts:
            return Elimination(candidate.id, stage.slug, reason)
    return None


def _nobody(offer: ModelOffer, eliminated: tuple[Elimination, ...]) -> str:
    if any(found.skill == "geo_residency" for found in eliminated):
        return "region_not_allowed"
    if offer.unpriced and not offer.candidates:
        return UNPRICED
    return "upstream_unavailable"
