"""What applies to one key and one model, and who said so: the studio's and the explainer's data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from policies.catalogue import skill
from policies.contract.facts import TenantFacts
from policies.merge import (
    EffectiveSkill,
    Origin,
    PolicyIndex,
    effective,
    scope_chain,
)
from policies.schema.snapshot import Budget, Key, Pool, Snapshot, Tenant
from policies.schema.table import merge_words
from policies.schema.units import Mode


@dataclass(frozen=True, slots=True)
class FieldExplanation:
    name: str
    value: Any
    origin: Origin
    merge: str
    """Merge mode in words, such as `tighten (subset)`."""
    said: tuple[tuple[str, Any], ...]
    """(scope, value) of every scope that sets the field, widest first."""


@dataclass(frozen=True, slots=True)
class SkillExplanation:
    slug: str
    title: str
    mode: Mode
    """Mode in force: `off` also for a key outside the ramp."""
    in_ramp: bool
    bound_by_tenant: bool
    """The tenant's own facts (its fence) put the skill in force, whatever the mode."""
    fields: tuple[FieldExplanation, ...]


@dataclass(frozen=True, slots=True)
class Explanation:
    snapshot_version: int
    policy_revision: int
    tenant: Tenant
    key: Key
    model: str
    model_allowed: bool
    pools: tuple[Pool, ...]
    """Pools that serve the model, before any fence or breaker."""
    budgets: tuple[Budget, ...]
    skills: tuple[SkillExplanation, ...]


def explain(snapshot: Snapshot, key_id: str, model: str) -> Explanation:
    """Raises KeyError with the id when the snapshot has no such key."""
    key = _by_id(snapshot.keys, key_id)
    tenant = _by_id(snapshot.tenants, key.tenant)
    subjects = {tenant.id, key.id}
    return Explanation(
        snapshot_version=snapshot.version,
        policy_revision=snapshot.policy_revision,
        tenant=tenant,
        key=key,
        model=model,
        model_allowed=key.models is None or model in key.models,
        pools=tuple(pool for pool in snapshot.pools if pool.model == model),
        budgets=tuple(each for each in snapshot.budgets if each.subject in subjects),
        skills=explain_skills(PolicyIndex.of(snapshot.documents), tenant, key_id, model),
    )


def explain_skills(
    index: PolicyIndex, tenant: Tenant | None, key: str | None, model: str | None
) -> tuple[SkillExplanation, ...]:
    """The same for a scope that is still being edited; None leaves a scope out."""
    tenant_id = None if tenant is None else tenant.id
    facts = TenantFacts("") if tenant is None else TenantFacts.of(tenant)
    scopes = scope_chain(tenant_id, key, model)
    found = effective(index, tenant_id, key, model)
    return tuple(_explain_skill(index, each, facts, scopes) for each in found.values())


def _explain_skill(
    index: PolicyIndex, each: EffectiveSkill, facts: TenantFacts, scopes: Sequence[str]
) -> SkillExplanation:
    entry = skill(each.slug)
    fields = tuple(_explain_fields(index, each, scopes))
    bound = entry.bound_by(facts)
    return SkillExplanation(each.slug, entry.title, each.mode, each.in_ramp, bound, fields)


def _explain_fields(
    index: PolicyIndex, each: EffectiveSkill, scopes: Sequence[str]
) -> Iterator[FieldExplanation]:
    layers = [(scope, index.layer(scope, each.slug) or {}) for scope in scopes]
    for name, info in type(each.config).model_fields.items():
        said = tuple((scope, layer[name]) for scope, layer in layers if name in layer)
        value = getattr(each.config, name)
        yield FieldExplanation(name, value, each.origins[name], merge_words(info), said)


def _by_id(objects: Sequence[Any], identifier: str) -> Any:
    found: Mapping[str, Any] = {each.id: each for each in objects}
    return found[identifier]
