"""From inventory and policy documents to one snapshot, or to the list of what is wrong with them.

The same checks run in the studio while a person types, in the API, on the command line and here
before anything is sent. An error stops the snapshot; a warning is shown and does not.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal
from urllib.parse import urlsplit

import orjson
from pydantic import ValidationError

from policies.catalogue import CATALOGUE
from policies.contract.facts import EndpointFacts, TenantFacts
from policies.merge import (
    EffectiveSkill,
    FieldProblem,
    Layer,
    PolicyIndex,
    Stage,
    effective,
    field_rules,
    parse_document,
    scope_chain,
    stages,
)
from policies.schema.snapshot import Budget, Key, PolicyDocument, Pool, Snapshot, Tenant
from policies.schema.window import time_zones

__all__ = [
    "CompileError",
    "EffectiveSkill",
    "Inventory",
    "PolicyIndex",
    "Problem",
    "Stage",
    "compile_snapshot",
    "effective",
    "lint",
    "stages",
]

Severity = Literal["error", "warning"]

_HTTP_SCHEMES: Final = ("http", "https")


@dataclass(frozen=True, slots=True)
class Inventory:
    """Everything of a snapshot that is not policy; takes effect as soon as it is written."""

    tenants: Sequence[Tenant] = ()
    keys: Sequence[Key] = ()
    pools: Sequence[Pool] = ()
    budgets: Sequence[Budget] = ()


@dataclass(frozen=True, slots=True)
class Problem:
    """One finding of the compiler. `code` is stable; `message` is a sentence for a person."""

    code: str
    scope: str
    """Scope of a document (`global`, `tenants/<id>` …) or place of an object (`pools/<id>`)."""
    pointer: str
    """JSON pointer inside that document or object; empty: all of it."""
    message: str
    severity: Severity = "error"


class CompileError(Exception):
    """The snapshot cannot be made; `problems` holds every error, not only the first."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        first = problems[0]
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        super().__init__(f"{first.scope}{first.pointer}: {first.message}{more}")
        self.problems = tuple(problems)


def compile_snapshot(
    inventory: Inventory,
    documents: Iterable[PolicyDocument],
    *,
    version: int,
    policy_revision: int,
    created_at_ms: int,
) -> Snapshot:
    """The snapshot of what stands in the database now. Raises CompileError.

    Objects are sorted by id, so equal content has equal bytes whatever order it was read in.
    """
    documents = tuple(documents)
    errors = [found for found in lint(inventory, documents) if found.severity == "error"]
    if errors:
        raise CompileError(errors)
    return Snapshot(
        version=version,
        policy_revision=policy_revision,
        created_at_ms=created_at_ms,
        tenants=tuple(sorted(inventory.tenants, key=lambda tenant: tenant.id)),
        keys=tuple(sorted(inventory.keys, key=lambda key: key.id)),
        pools=tuple(sorted(inventory.pools, key=lambda pool: pool.id)),
        budgets=tuple(sorted(inventory.budgets, key=lambda budget: budget.id)),
        documents=tuple(sorted(documents, key=lambda document: document.scope)),
    )


def lint(inventory: Inventory, documents: Iterable[PolicyDocument]) -> list[Problem]:
    """Everything worth saying about a draft, errors first."""
    documents = tuple(documents)
    found = [*_inventory_problems(inventory), *_document_problems(inventory, documents)]
    return sorted(found, key=lambda problem: problem.severity)


# Inventory -----------------------------------------------------------------------------------


def _inventory_problems(inventory: Inventory) -> Iterator[Problem]:
    yield from _duplicates(inventory)
    yield from _dangling_references(inventory)
    for pool in inventory.pools:
        yield from _pool_problems(pool)
    zones = time_zones()
    for budget in inventory.budgets:
        if budget.timezone not in zones:
            message = f"There is no time zone {budget.timezone}."
            yield Problem("unknown_timezone", f"budgets/{budget.id}", "/timezone", message)


def _duplicates(inventory: Inventory) -> Iterator[Problem]:
    places: dict[str, Iterable[str]] = {
        "tenants": (tenant.id for tenant in inventory.tenants),
        "keys": (key.id for key in inventory.keys),
        "pools": (pool.id for pool in inventory.pools),
        "endpoints": (end.id for pool in inventory.pools for end in pool.endpoints),
        "budgets": (budget.id for budget in inventory.budgets),
    }
    for place, ids in places.items():
        for identifier in _repeated(ids):
            message = f"{identifier} stands more than once."
            yield Problem("duplicate_id", f"{place}/{identifier}", "/id", message)
    owners: dict[str, list[str]] = defaultdict(list)
    for key in inventory.keys:
        for each in key.digests:
            owners[each.digest].append(key.id)
    for ids in owners.values():
        if len(ids) > 1:
            message = f"The same secret belongs to {' and '.join(ids)}."
            yield Problem("duplicate_digest", f"keys/{ids[-1]}", "/digests", message)


def _repeated(values: Iterable[str]) -> list[str]:
    return [value for value, count in Counter(values).items() if count > 1]


def _dangling_references(inventory: Inventory) -> Iterator[Problem]:
    tenants = {tenant.id for tenant in inventory.tenants}
    keys = {key.id for key in inventory.keys}
    models = {pool.model for pool in inventory.pools}
    for key in inventory.keys:
        place = f"keys/{key.id}"
        if key.tenant not in tenants:
            yield Problem("unknown_tenant", place, "/tenant", f"No tenant {key.tenant}.")
        for model in key.models or ():
            if model not in models:
                message = f"No pool serves model {model}."
                yield Problem("unknown_model", place, "/models", message, "warning")
    for budget in inventory.budgets:
        if budget.subject not in (tenants if budget.scope == "tenant" else keys):
            message = f"No {budget.scope} {budget.subject}."
            yield Problem("unknown_budget_subject", f"budgets/{budget.id}", "/subject", message)


def _pool_problems(pool: Pool) -> Iterator[Problem]:
    place = f"pools/{pool.id}"
    if pool.price is None:
        message = f"Pool {pool.name} has no price and refuses work until it has one."
        yield Problem("pool_without_price", place, "/price", message, "warning")
    if not pool.endpoints:
        message = f"Pool {pool.name} has no endpoint."
        yield Problem("pool_without_endpoints", place, "/endpoints", message, "warning")
    for number, endpoint in enumerate(pool.endpoints):
        pointer = f"/endpoints/{number}"
        if not _is_base_url(endpoint.base_url):
            message = f"{endpoint.base_url} is no http or https address of a host."
            yield Problem("invalid_base_url", place, f"{pointer}/base_url", message)
        if endpoint.region is None:
            message = f"The region of {endpoint.base_url} is unknown; no fence lets it pass."
            yield Problem("region_unknown", place, f"{pointer}/region", message, "warning")


def _is_base_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        _ = parts.port  # raises for a port that is no number
    except ValueError:
        return False
    clean = not (parts.query or parts.fragment or parts.username)
    return parts.scheme in _HTTP_SCHEMES and bool(parts.hostname) and clean


# Documents -----------------------------------------------------------------------------------


def _document_problems(
    inventory: Inventory, documents: Sequence[PolicyDocument]
) -> Iterator[Problem]:
    for scope in _repeated(document.scope for document in documents):
        yield Problem("duplicate_scope", scope, "", f"There are two documents for {scope}.")
    layers: dict[str, Mapping[str, Layer]] = {}
    for document in documents:
        layers[document.scope], problems = parse_document(document)
        yield from (_of_field(document.scope, problem) for problem in problems)
    index = PolicyIndex(layers)
    yield from _unknown_scopes(inventory, index)
    yield from _parent_conflicts(inventory, index)
    contradictions = list(_contradictions(inventory, index))
    yield from contradictions
    if not contradictions:
        yield from _warnings_of_skills(inventory, index)


def _of_field(scope: str, problem: FieldProblem) -> Problem:
    return Problem(problem.code, scope, problem.pointer, problem.message)


def _unknown_scopes(inventory: Inventory, index: PolicyIndex) -> Iterator[Problem]:
    known = {"global"}
    known.update(f"tenants/{tenant.id}" for tenant in inventory.tenants)
    known.update(f"keys/{key.id}" for key in inventory.keys)
    known.update(f"models/{pool.model}" for pool in inventory.pools)
    for scope in index.scopes:
        if scope not in known:
            message = f"Nothing is named {scope}; its settings have no effect."
            yield Problem("unknown_scope", scope, "", message, "warning")


def _parent_conflicts(inventory: Inventory, index: PolicyIndex) -> Iterator[Problem]:
    """Settings looser than a wider scope allows. They would have no effect, so they are refused
    where they are written. A model's document is held against the global one only: which tenant or
    key it will meet is not known, and there the stricter value wins.
    """
    tenants = {f"keys/{key.id}": f"tenants/{key.tenant}" for key in inventory.keys}
    for scope in index.scopes:
        parents = ["global", tenants[scope]] if scope in tenants else ["global"]
        for parent in parents:
            if parent != scope:
                yield from _conflicts_with(index, parent, scope)


def _conflicts_with(index: PolicyIndex, parent: str, scope: str) -> Iterator[Problem]:
    for entry in CATALOGUE:
        wider, narrower = index.layer(parent, entry.slug), index.layer(scope, entry.slug)
        if not wider or not narrower:
            continue
        for name, rule in field_rules(entry.config).items():
            both = name in wider and name in narrower
            if both and rule.loosens(wider[name], narrower[name]):
                yield _conflict(scope, f"/skills/{entry.slug}/{name}", parent, wider[name])


def _conflict(scope: str, pointer: str, parent: str, granted: object) -> Problem:
    value = orjson.dumps(granted).decode()
    message = f"{parent} sets {value}; {scope} cannot go beyond that."
    return Problem("loosens_parent", scope, pointer, message)


def _contradictions(inventory: Inventory, index: PolicyIndex) -> Iterator[Problem]:
    """Chains of scopes whose fields are well alone and do not fit together, or give no plan. A
    worker builds plans when they are first asked for; here each one is built, so that it can.
    """
    for scopes in _chains(inventory, index):
        for entry in CATALOGUE:
            if index.layer(scopes[-1], entry.slug) is None:
                continue
            try:
                config, _ = index.merged(entry.slug, scopes)
                entry.compile(config, TenantFacts(""))
            except ValueError as error:
                message = f"{' + '.join(scopes)}: {_cause(error)}"
                yield Problem("contradiction", scopes[-1], f"/skills/{entry.slug}", message)


def _cause(error: ValueError) -> str:
    if isinstance(error, ValidationError):
        return str(error.errors()[0]["msg"]).removeprefix("Value error, ")
    return str(error)


def _chains(inventory: Inventory, index: PolicyIndex) -> Iterator[tuple[str, ...]]:
    """Every way in which the documents that exist can meet, widest scope first."""
    present = set(index.scopes)
    people: set[tuple[str, ...]] = {()}
    people.update((f"tenants/{tenant.id}",) for tenant in inventory.tenants)
    people.update((f"tenants/{key.tenant}", f"keys/{key.id}") for key in inventory.keys)
    models = [scope for scope in present if scope.startswith("models/")]
    heads = {tuple(scope for scope in ("global", *who) if scope in present) for who in people}
    for head in sorted(heads):
        if head:
            yield head
        for model in sorted(models):
            yield (*head, model)


def _warnings_of_skills(inventory: Inventory, index: PolicyIndex) -> Iterator[Problem]:
    """What each skill says of its plan for each tenant and model that has something to say."""
    endpoints = _endpoints_by_model(inventory.pools)
    for tenant in inventory.tenants:
        facts = TenantFacts.of(tenant)
        for model, candidates in endpoints.items():
            scopes = scope_chain(tenant.id, None, model)
            yield from _warnings_of(index, scopes, facts, candidates)


def _warnings_of(
    index: PolicyIndex,
    scopes: Sequence[str],
    facts: TenantFacts,
    endpoints: Sequence[EndpointFacts],
) -> Iterator[Problem]:
    place = f"tenants/{facts.id}"
    for entry in CATALOGUE:
        config, _ = index.merged(entry.slug, scopes)
        if config.mode == "off" and not entry.bound_by(facts):
            continue
        shown = config if config.mode != "off" else entry.config()
        try:
            findings = entry.warns(entry.compile(shown, facts), facts, endpoints)
        except ValueError as error:
            yield Problem("plan_invalid", place, f"/skills/{entry.slug}", str(error))
            continue
        for finding in findings:
            yield Problem(finding.code, place, f"/skills/{entry.slug}", finding.message, "warning")


def _endpoints_by_model(pools: Iterable[Pool]) -> dict[str, list[EndpointFacts]]:
    found: dict[str, list[EndpointFacts]] = defaultdict(list)
    for pool in pools:
        found[pool.model] += [EndpointFacts.of(pool, endpoint) for endpoint in pool.endpoints]
    return found
