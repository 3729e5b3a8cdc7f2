"""What a publish would change, field by field and in words, and how far it reaches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from console.keys.models import ApiKey
from console.studio.forms import sentence, value_words
from console.studio.scopes import scope_words
from console.tenants.models import Tenant
from console.ui.schema_form import UNSET, SchemaField, label_of, schema_fields
from policies.catalogue import is_skill, skill
from policies.merge import field_rules
from policies.schema.snapshot import PolicyDocument

_MODES: Final = ("off", "observe", "shadow", "enforce")


@dataclass(frozen=True, slots=True)
class FieldChange:
    skill: str
    slug: str
    field: str
    before: str
    after: str
    words: str
    """What it means, where that can be told: `tighter`, `turned off`."""
    tone: str
    """`warn` where something is loosened or turned off."""


@dataclass(frozen=True, slots=True)
class ScopeChange:
    scope: str
    title: str
    fields: tuple[FieldChange, ...]


@dataclass(frozen=True, slots=True)
class Reach:
    tenants: int
    keys: int


def changes(before: Sequence[PolicyDocument], after: Sequence[PolicyDocument]) -> list[ScopeChange]:
    """By scope, widest first. Empty: nothing would change.

    Not `policies.diff`: there a field that is null is a field that is not set, which for a policy document are two
    different things.
    """
    old = {document.scope: document.skills for document in before}
    new = {document.scope: document.skills for document in after}
    scopes = [scope for scope in old.keys() | new.keys() if old.get(scope) != new.get(scope)]
    found = [_scope_change(scope, old.get(scope, {}), new.get(scope, {})) for scope in scopes]
    return sorted(found, key=lambda each: (each.scope != "global", each.scope))


def reach(changed: Iterable[ScopeChange]) -> Reach:
    """Live keys and tenants under the changed scopes; a model's document can meet any of them."""
    scopes = [each.scope for each in changed]
    live = ApiKey.objects.filter(revoked_at=None)
    if any(scope == "global" or scope.startswith("models/") for scope in scopes):
        return Reach(Tenant.objects.count(), live.count())
    tenants = {scope.removeprefix("tenants/") for scope in scopes if scope.startswith("tenants/")}
    ids = {scope.removeprefix("keys/") for scope in scopes if scope.startswith("keys/")}
    owners = set(live.filter(pk__in=ids).values_list("tenant_id", flat=True))
    keys = live.filter(tenant_id__in=tenants) | live.filter(pk__in=ids)
    return Reach(len(tenants | owners), keys.count())


def _scope_change(
    scope: str, old: Mapping[str, Mapping[str, Any]], new: Mapping[str, Mapping[str, Any]]
) -> ScopeChange:
    fields = [
        _field_change(
            slug, name, old.get(slug, {}).get(name, UNSET), new.get(slug, {}).get(name, UNSET)
        )
        for slug in sorted(old.keys() | new.keys())
        for name in _names(slug, old.get(slug, {}), new.get(slug, {}))
        if old.get(slug, {}).get(name, UNSET) != new.get(slug, {}).get(name, UNSET)
    ]
    words = scope_words(scope)
    return ScopeChange(scope, words[:1].upper() + words[1:], tuple(fields))


def _names(slug: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Fields in the order of the form; those the schema does not know come last."""
    known = [spec.name for spec in schema_fields(skill(slug).config)] if is_skill(slug) else []
    rest = sorted((old.keys() | new.keys()) - set(known))
    return [*(name for name in known if name in old or name in new), *rest]


def _field_change(slug: str, name: str, before: Any, after: Any) -> FieldChange:
    spec = _spec(slug, name)
    if spec is None:
        return FieldChange(slug, slug, label_of(name), _raw(before), _raw(after), "", "")
    words, tone = _meaning(slug, spec, before, after)
    title = skill(slug).title
    return FieldChange(
        title, slug, spec.label, value_words(spec, before), value_words(spec, after), words, tone
    )


def _spec(slug: str, name: str) -> SchemaField | None:
    if not is_skill(slug):
        return None
    return next((spec for spec in schema_fields(skill(slug).config) if spec.name == name), None)


def _raw(value: Any) -> str:
    return "inherited" if value is UNSET else str(value)


def _meaning(slug: str, spec: SchemaField, before: Any, after: Any) -> tuple[str, str]:
    if after is UNSET:
        return "Goes back to what it inherits", ""
    if spec.name == "mode":
        return _mode_words(spec.default if before is UNSET else before, after)
    if not spec.merge.startswith("tighten"):
        return ("Set here for the first time", "") if before is UNSET else ("", "")
    return _tightness(slug, spec, before, after)


def _mode_words(before: Any, after: Any) -> tuple[str, str]:
    if before not in _MODES or after not in _MODES:
        return "", ""
    if after == "off":
        return "Turned off", "warn"
    up = _MODES.index(after) > _MODES.index(before)
    if after == "enforce":
        return "Begins to act on requests", "accent"
    return ("Watches, changes nothing", "") if up else ("Stops acting, goes on watching", "warn")


def _tightness(slug: str, spec: SchemaField, before: Any, after: Any) -> tuple[str, str]:
    rule = field_rules(skill(slug).config)[spec.name]
    old, new = _typed(spec.default if before is UNSET else before), _typed(after)
    if rule.loosens(old, new):
        return "Looser than before", "warn"
    return "Tighter than before", ""


def _typed(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def refusal_lines(problems: Iterable[Any]) -> list[tuple[str, str]]:
    """Place and sentence of each finding that stopped a publish."""
    return [
        (
            f"{scope_words(each.scope)} {each.pointer.removeprefix('/skills/').replace('/', ' · ')}".strip(),
            sentence(each.message),
        )
        for each in problems
    ]
