"""Builds a RuntimePlan from a verified snapshot. Runs in a thread; touches nothing a request is using."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any, Final

from gateway.host import GatewayHost
from gateway.identity.lookup import Grant, KeyRing
from gateway.limits.leases import BudgetTerms, LeaseBook, Purse
from gateway.limits.rates import KeyUse, Limiter, Share
from gateway.limits.window import window_at
from gateway.metrics import Metrics
from gateway.pipeline.plan import KeyRecord, ModelOffer, RuntimePlan, StageFactory
from gateway.protocols.errors import Refused
from gateway.upstream.dispatch import Candidate, Lane, PoolTerms, SkillStage
from gateway.upstream.engines import ENGINES
from gateway.upstream.request_head import RequestHead, parse_base_url
from gateway.upstream.transport import Transport
from policies.catalogue import CATALOGUE
from policies.compiler import PolicyIndex, effective
from policies.contract.facts import EndpointFacts, TenantFacts
from policies.schema.sealing import unseal_secret
from policies.schema.snapshot import Budget, Key, Pool, Price, Snapshot, Tenant
from telemetry.pricing import Rates

WARM_PLANS: Final = 2000
"""Plans that were in use under the old snapshot and are made for the new one before it is swapped in."""

OpenTransport = Callable[[str], Transport]
"""By base URL; called in the event loop."""


class BuildError(Exception):
    """The snapshot is genuine and cannot be run; the message is the NACK's reason."""


class PlanBuilder:
    """Keeps what outlives snapshots: lanes to endpoints, use of keys, purses."""

    def __init__(
        self,
        secret: bytes,
        host: GatewayHost,
        book: LeaseBook,
        metrics: Metrics,
        open_transport: OpenTransport,
    ) -> None:
        self._secret, self._host, self._book, self._metrics = secret, host, book, metrics
        self._open_transport = open_transport
        self.share: Final = Share()
        self._lanes: dict[tuple[str, str], Lane] = {}
        self._uses: dict[str, KeyUse] = {}
        self._purses: dict[tuple[BudgetTerms, ...], Purse] = {}

    def build(self, snapshot: Snapshot, sha256: str, old: RuntimePlan | None = None) -> RuntimePlan:
        """Raises BuildError, SealError or ValueError: the old plan stays in force."""
        index = PolicyIndex.of(snapshot.documents)
        factory = StageFactory(self._host)
        ring = KeyRing(self._grants(snapshot))
        offers = self._offers(snapshot)
        runtime = RuntimePlan(ring, offers, index, factory, self._metrics.series)
        runtime.version, runtime.sha256 = snapshot.version, sha256
        runtime.policy_revision = snapshot.policy_revision
        runtime.created_at_ms = snapshot.created_at_ms
        runtime.budgets = {budget.id: _terms(budget) for budget in snapshot.budgets}
        runtime.hard_budgets = tuple(t for t in runtime.budgets.values() if t.mode == "hard")
        runtime.purses = {r.id: r.purse for _, r in ring.items() if r.purse is not None}
        runtime.observers = self._observers(index, factory)
        self._warm(runtime, old)
        return runtime

    # -- keys and money ----------------------------------------------------------------------------------------------

    def _grants(self, snapshot: Snapshot) -> Iterable[tuple[bytes, Grant[KeyRecord]]]:
        tenants = {tenant.id: tenant for tenant in snapshot.tenants}
        budgets: dict[tuple[str, str], list[Budget]] = defaultdict(list)
        for budget in snapshot.budgets:
            budgets[budget.scope, budget.subject].append(budget)
        for key in snapshot.keys:
            tenant = tenants.get(key.tenant)
            if tenant is None:
                raise BuildError(f"key {key.id} belongs to no tenant of the snapshot")
            bound = budgets["tenant", tenant.id] + budgets["key", key.id]
            record = self._record(key, tenant, bound)
            for each in key.digests:
                yield bytes.fromhex(each.digest), Grant(record, each.not_after_ms)

    def _record(self, key: Key, tenant: Tenant, budgets: list[Budget]) -> KeyRecord:
        use = self._uses.setdefault(key.id, KeyUse())
        limiter = Limiter(key.rate_limits, use, self.share)
        return KeyRecord(key, TenantFacts.of(tenant), limiter, self._purse(budgets))

    def _purse(self, budgets: list[Budget]) -> Purse | None:
        if not budgets:
            return None
        terms = tuple(_terms(budget) for budget in budgets)
        purse = self._purses.get(terms)
        if purse is None:
            for each in terms:
                window_at(each.window, each.timezone, self._host.unix_ms())  # the zone must exist
            purse = self._purses.setdefault(terms, Purse(self._book, terms))
        return purse

    # -- endpoints ---------------------------------------------------------------------------------------------------

    def _offers(self, snapshot: Snapshot) -> dict[str, ModelOffer]:
        offers: dict[str, ModelOffer] = {}
        for pool in snapshot.pools:
            offer = offers.setdefault(
                pool.model, ModelOffer(pool.model, snapshot.created_at_ms // 1000)
            )
            if pool.price is None:
                offer.unpriced += [endpoint.id for endpoint in pool.endpoints]
            else:
                offer.candidates += self._candidates(pool, pool.price)
        return offers

    def _candidates(self, pool: Pool, price: Price) -> Iterable[Candidate]:
        engine = ENGINES[pool.engine]
        credential = None
        if pool.credential is not None:
            credential = unseal_secret(pool.credential, self._secret, pool.id)
        terms = PoolTerms(
            pool.id,
            pool.upstream_model or pool.model,
            engine,
            pool.engine,
            _rates(price),
            price.id,
            pool.max_output_tokens,
        )
        for endpoint in pool.endpoints:
            address = parse_base_url(endpoint.base_url)
            heads = {
                route.encode(): RequestHead(address, route, engine, credential)
                for route in engine.routes
            }
            lane = self._lane(endpoint.id, endpoint.base_url)
            yield Candidate(EndpointFacts.of(pool, endpoint), terms, heads, lane)

    def _lane(self, endpoint_id: str, base_url: str) -> Lane:
        lane = self._lanes.get((endpoint_id, base_url))
        if lane is None:
            lane = Lane(lambda: self._open_transport(base_url))
            lane = self._lanes.setdefault((endpoint_id, base_url), lane)
        return lane

    def forget_unused(self, runtime: RuntimePlan) -> set[str]:
        """Drop what no endpoint of `runtime` has; the base URLs that stay. Called in the event loop after a swap."""
        used = {id(c.lane) for offer in runtime.offers.values() for c in offer.candidates}
        self._lanes = {key: lane for key, lane in self._lanes.items() if id(lane) in used}
        self._purses = {p.terms: p for _, record in runtime.ring.items() if (p := record.purse)}
        return {base_url for _, base_url in self._lanes}

    # -- the rest ----------------------------------------------------------------------------------------------------

    def _observers(
        self, index: PolicyIndex, factory: StageFactory
    ) -> tuple[tuple[SkillStage, Any], ...]:
        """Observers watch the fleet and not a request, so only the global document speaks of them."""
        settings = effective(index, None, None, None)
        found = []
        for skill in CATALOGUE:
            if skill.role == "observer" and settings[skill.slug].mode != "off":
                config = settings[skill.slug].config
                plan = skill.compile(config, TenantFacts(""))
                found.append((factory.make(skill, config.mode, plan), config))
        return tuple(found)

    def _warm(self, runtime: RuntimePlan, old: RuntimePlan | None) -> None:
        """Make the plans that will be asked for first, off the event loop."""
        if old is None:
            return
        now_ms = time.time_ns() // 1_000_000
        made = 0
        for digest, record in old.ring.items():
            for model in list(record.plans):
                if made >= WARM_PLANS:
                    return
                try:
                    runtime.plan_for(runtime.ring.find(digest, now_ms), model)
                except Refused:
                    continue
                made += 1


def _terms(b: Budget) -> BudgetTerms:
    return BudgetTerms(b.id, b.name, b.limit_microusd, b.window, b.timezone, b.mode)


def _rates(price: Price) -> Rates:
    cached = price.cached_input_microusd_per_mtok
    full = price.input_microusd_per_mtok
    return Rates(full, price.output_microusd_per_mtok, full if cached is None else cached)
