"""Effective settings: what global, tenant, key and model documents say together, and who said it.

Scopes are asked from the widest to the narrowest. For each field its merge mode decides:

- override: the narrowest scope that sets it wins;
- tighten: the strictest value wins, whoever sets it. None is no restriction, the loosest value of
  all; choices are ordered as they are declared; a subset is an intersection;
- union: everything that any scope names;
- locked: the widest scope that sets it wins.

A field that no scope sets has its default. Each mode is associative, so it does not matter in
which groups scopes are combined.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from typing import Any, Final, Literal, get_args, get_origin

import orjson
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from policies.catalogue import CATALOGUE, is_skill, skill
from policies.contract.config import SkillConfig
from policies.contract.facts import TenantFacts
from policies.contract.manifest import Skill
from policies.schema.base import Merge
from policies.schema.snapshot import PolicyDocument
from policies.schema.units import Mode

DEFAULT_ORIGIN: Final = ("default",)

Origin = tuple[str, ...]
"""Scopes that decided a field, widest first; `("default",)` when none did."""

Layer = Mapping[str, Any]
"""Checked values of the fields that one scope sets for one skill."""


@dataclass(frozen=True, slots=True)
class FieldProblem:
    """One thing wrong with a document. `pointer` is a JSON pointer into it."""

    code: str
    pointer: str
    message: str


@dataclass(frozen=True, slots=True)
class FieldRule:
    """How one field of a skill is checked and merged."""

    merge: Merge
    adapter: TypeAdapter[Any]
    ranks: tuple[Any, ...] = ()
    """Declared order of a choice, loosest or strictest first as `merge.stricter` says."""

    def combine(self, wider: Any, narrower: Any) -> Any:
        """The value of both together."""
        if self.merge.mode == "override":
            return narrower
        if self.merge.mode == "locked":
            return wider
        if self.merge.mode == "union":
            return tuple(dict.fromkeys((*wider, *narrower)))
        return self._tighten(wider, narrower)

    def loosens(self, wider: Any, narrower: Any) -> bool:
        """Whether `narrower` asks for more than `wider` grants."""
        if self.merge.mode == "locked":
            return bool(narrower != wider)
        if self.merge.mode != "tighten":
            return False
        combined = self._tighten(wider, narrower)
        if self.merge.stricter == "subset" and combined is not None and narrower is not None:
            return set(combined) != set(narrower)
        return bool(combined != narrower)

    def _tighten(self, wider: Any, narrower: Any) -> Any:
        if wider is None or narrower is None:
            return narrower if wider is None else wider
        if self.merge.stricter == "subset":
            return tuple(item for item in wider if item in narrower)
        strictest = min if self.merge.stricter == "lower" else max
        return strictest(wider, narrower, key=self._rank)

    def _rank(self, value: Any) -> Any:
        return self.ranks.index(value) if self.ranks else value


@dataclass(frozen=True, slots=True)
class EffectiveSkill:
    """What holds for one skill at one place, before facts of the tenant are added."""

    slug: str
    config: SkillConfig
    origins: Mapping[str, Origin]
    in_ramp: bool
    """False: the key is outside `ramp_percent`."""

    @property
    def mode(self) -> Mode:
        return self.config.mode if self.in_ramp else "off"


@dataclass(frozen=True, slots=True)
class Stage:
    """A skill in force, compiled. `effective` is None where the tenant's facts alone put it there."""

    skill: Skill
    mode: Mode
    plan: Any
    effective: EffectiveSkill | None


class PolicyIndex:
    """All documents, each checked and parsed once; answers are kept for as long as it lives."""

    __slots__ = ("_configs", "_layers")

    def __init__(self, layers: Mapping[str, Mapping[str, Layer]]) -> None:
        self._layers = layers
        self._configs: dict[tuple[str, ...], tuple[SkillConfig, dict[str, Origin]]] = {}

    @classmethod
    def of(cls, documents: Iterable[PolicyDocument]) -> PolicyIndex:
        """Raises ValueError with the first problem; a published snapshot has none."""
        layers: dict[str, Mapping[str, Layer]] = {}
        for document in documents:
            layers[document.scope], problems = parse_document(document)
            if problems:
                raise ValueError(f"{document.scope}{problems[0].pointer}: {problems[0].message}")
        return cls(layers)

    @property
    def scopes(self) -> Iterable[str]:
        return self._layers.keys()

    def layer(self, scope: str, slug: str) -> Layer | None:
        return self._layers.get(scope, {}).get(slug)

    def merged(self, slug: str, scopes: Sequence[str]) -> tuple[SkillConfig, Mapping[str, Origin]]:
        """Settings and their origins over `scopes`, widest first. ValidationError when fields that
        are well alone contradict each other together.
        """
        speaking = (slug, *(scope for scope in scopes if self.layer(scope, slug)))
        found = self._configs.get(speaking)
        if found is None:
            layers = [(scope, self._layers[scope][slug]) for scope in speaking[1:]]
            found = self._configs[speaking] = merge_layers(skill(slug), layers)
        return found


def effective(
    documents_by_scope: PolicyIndex, tenant: str | None, key: str | None, model: str | None
) -> dict[str, EffectiveSkill]:
    """Every skill's settings for one key and model, in pipeline order; None leaves a scope out."""
    scopes = scope_chain(tenant, key, model)
    return {
        entry.slug: _effective_skill(documents_by_scope, entry.slug, scopes, key)
        for entry in CATALOGUE
    }


def stages(
    documents_by_scope: PolicyIndex, tenant: TenantFacts, key: str, model: str
) -> tuple[Stage, ...]:
    """What is in force for one key and model, compiled, in pipeline order: the gateway's question.

    A skill that the tenant's facts bind stands here in `enforce`, built from those facts alone,
    unless its own settings already enforce; then both are in the one plan. So a tenant's fence
    holds while the geo_residency document is off, observed or outside its ramp.
    """
    found = []
    for each in effective(documents_by_scope, tenant.id, key, model).values():
        entry = skill(each.slug)
        if entry.bound_by(tenant) and each.mode != "enforce":
            plan = entry.compile(entry.config(), tenant)
            found.append(Stage(entry, "enforce", plan, None))
        if each.mode != "off":
            found.append(Stage(entry, each.mode, entry.compile(each.config, tenant), each))
    return tuple(found)


def scope_chain(tenant: str | None, key: str | None, model: str | None) -> tuple[str, ...]:
    """Names of the scopes that speak, widest first."""
    named = (("tenants", tenant), ("keys", key), ("models", model))
    return ("global", *(f"{kind}/{name}" for kind, name in named if name is not None))


def in_ramp(slug: str, key: str | None, percent: int) -> bool:
    """Whether `key` is among the first `percent` of all keys for this skill.

    Raising the percentage only adds keys. The slug is hashed too, so that it is not always the
    same keys that go first. Without a key (a page on a tenant) the answer is yes.
    """
    if percent >= 100 or key is None:  # noqa: PLR2004 - all of them
        return True
    digest = blake2b(f"{slug}\0{key}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % 10_000 < percent * 100


def merge_layers(
    entry: Skill, layers: Sequence[tuple[str, Layer]]
) -> tuple[SkillConfig, dict[str, Origin]]:
    """Combine layers, widest first, into one valid configuration and the origin of each field."""
    rules = field_rules(entry.config)
    values: dict[str, Any] = {}
    origins: dict[str, Origin] = dict.fromkeys(rules, DEFAULT_ORIGIN)
    for scope, layer in layers:
        for name, value in layer.items():
            if name in values:
                origins[name] = _origin(rules[name], values[name], value, (origins[name], scope))
                values[name] = rules[name].combine(values[name], value)
            else:
                origins[name], values[name] = (scope,), value
    return entry.config.model_validate(values), origins


def parse_document(
    document: PolicyDocument,
) -> tuple[dict[str, Layer], list[FieldProblem]]:
    """The layers of one document, field by field; what cannot be used is left out and named."""
    layers: dict[str, Layer] = {}
    problems: list[FieldProblem] = []
    for slug, fields in document.skills.items():
        if is_skill(slug):
            layers[slug] = _parse_fields(skill(slug), fields, problems)
        else:
            message = f"There is no skill named {slug}."
            problems.append(FieldProblem("unknown_skill", f"/skills/{slug}", message))
    return layers, problems


@cache
def field_rules(config: type[SkillConfig]) -> Mapping[str, FieldRule]:
    return {name: _rule(info) for name, info in config.model_fields.items()}


def _effective_skill(
    index: PolicyIndex, slug: str, scopes: Sequence[str], key: str | None
) -> EffectiveSkill:
    config, origins = index.merged(slug, scopes)
    return EffectiveSkill(slug, config, origins, in_ramp(slug, key, config.ramp_percent))


def _origin(rule: FieldRule, wider: Any, narrower: Any, who: tuple[Origin, str]) -> Origin:
    earlier, scope = who
    combined = rule.combine(wider, narrower)
    if combined == wider:
        return earlier
    return (scope,) if combined == narrower else (*earlier, scope)


def _parse_fields(entry: Skill, fields: Mapping[str, Any], problems: list[FieldProblem]) -> Layer:
    rules = field_rules(entry.config)
    layer: dict[str, Any] = {}
    for name, value in fields.items():
        pointer = f"/skills/{entry.slug}/{name}"
        if name not in rules:
            message = f"{entry.slug} has no field named {name}."
            problems.append(FieldProblem("unknown_field", pointer, message))
            continue
        try:
            layer[name] = rules[name].adapter.validate_json(orjson.dumps(value))
        except ValidationError as error:
            problems += _value_problems(pointer, error)
        except TypeError as error:  # a value that JSON cannot hold
            problems.append(FieldProblem("invalid_value", pointer, str(error)))
    return layer


def _value_problems(pointer: str, error: ValidationError) -> list[FieldProblem]:
    return [
        FieldProblem("invalid_value", "/".join([pointer, *map(str, detail["loc"])]), detail["msg"])
        for detail in error.errors(include_url=False, include_input=False)
    ]


def _rule(info: FieldInfo) -> FieldRule:
    merge = next((note for note in info.metadata if isinstance(note, Merge)), Merge())
    annotation = info.annotation
    strict = None if _is_model(annotation) else ConfigDict(strict=True)
    choices = get_args(annotation) if get_origin(annotation) is Literal else ()
    return FieldRule(merge, TypeAdapter(info.rebuild_annotation(), config=strict), choices)


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)
