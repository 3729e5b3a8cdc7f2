"""The skill form: one skill's fields at one scope, with where each value comes from and what is wrong with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from django.http import QueryDict

from console.studio.scopes import Scope, scope_words
from console.ui.schema_form import (
    UNSET,
    Entered,
    SchemaField,
    read,
    schema_fields,
    shown_text,
    state_text,
)
from policies.compiler import Problem
from policies.contract.manifest import Skill
from policies.merge import FieldRule, Layer, field_rules, parse_document
from policies.schema.snapshot import PolicyDocument

Documents = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""Scope -> skill -> the fields it sets."""

_LIST_MAX: Final = 6


@dataclass(frozen=True, slots=True)
class Said:
    """One link of the chain behind a value."""

    who: str
    value: str
    decides: bool


@dataclass(frozen=True, slots=True)
class Option:
    text: str
    label: str
    checked: bool
    inherited: bool = False


@dataclass(frozen=True, slots=True)
class FieldState:
    """Everything the page shows of one field."""

    spec: SchemaField
    is_set: bool
    value: Any
    """JSON value in the control: the one set here, else the inherited one."""
    texts: tuple[str, ...]
    origin: str
    is_draft: bool
    said: tuple[Said, ...]
    base: str
    errors: tuple[str, ...] = ()
    theirs: str = ""
    """What somebody else saved meanwhile, in words; empty: nothing."""
    suggestions: tuple[str, ...] = ()
    inherited: tuple[str, ...] = ()
    """Members of a union that wider scopes name; they hold whatever is set here."""

    @property
    def id(self) -> str:
        return f"f-{self.spec.name}"

    @property
    def shown(self) -> str:
        return shown_text(self.spec.control, self.value)

    @property
    def text(self) -> str:
        return self.spec.control.joiner.join(self.texts)

    @property
    def rows(self) -> int:
        lines = len(self.text.splitlines()) + len(self.text) // 80
        return min(max(lines + 1, 2), 12)

    @property
    def is_null(self) -> bool:
        return self.value is None

    @property
    def options(self) -> list[Option]:
        """Of a choice or of ticks; for words with suggestions, those that are known."""
        control = self.spec.control
        known = [*control.options] or [*dict.fromkeys([*self.suggestions, *self.texts])]
        texts = [
            text for each in known for text in control.encode([each] if control.many else each)
        ]
        return [Option(text, text, text in self.texts, text in self.inherited) for text in texts]


@dataclass(frozen=True)
class SkillForm:
    """`mine` holds what a post said; None: the page is only shown."""

    entry: Skill
    scope: Scope
    drafts: Documents
    published: Documents
    version: int
    """Revision that `published` is."""
    mine: Mapping[str, Entered] | None = None
    problems: Sequence[Problem] = ()
    theirs: Mapping[str, str] = field(default_factory=dict)
    regions: tuple[str, ...] = ()

    @cached_property
    def specs(self) -> tuple[SchemaField, ...]:
        return schema_fields(self.entry.config)

    @cached_property
    def own(self) -> Mapping[str, Any]:
        """JSON values that this scope's draft sets for the skill, as the schema reads them."""
        return self._plain(self._layer(self.drafts, self.scope.path))

    @cached_property
    def wider(self) -> list[tuple[str, Layer]]:
        return [(scope, self._layer(self.drafts, scope)) for scope in self.scope.wider]

    @cached_property
    def states(self) -> list[FieldState]:
        return [self._state(spec) for spec in self.specs]

    @property
    def mode(self) -> str:
        """The mode in force here, as the list of skills shows it."""
        spec = next(each for each in self.specs if each.name == "mode")
        return str(self._walk(spec, self.own.get("mode", UNSET))[0])

    @property
    def groups(self) -> list[tuple[str, list[FieldState]]]:
        found: dict[str, list[FieldState]] = {}
        for state in self.states:
            found.setdefault(state.spec.group, []).append(state)
        return list(found.items())

    @property
    def readable(self) -> bool:
        return not any(each.error for each in (self.mine or {}).values())

    @property
    def error_count(self) -> int:
        return sum(len(state.errors) for state in self.states)

    def fields(self) -> dict[str, Any]:
        """The skill's part of the document: the draft's own, with only what this person changed."""
        merged = dict(self.drafts.get(self.scope.path, {}).get(self.entry.slug, {}))
        for name, entered in (self.mine or {}).items():
            if not entered.changed or entered.error:
                continue
            if entered.is_set:
                merged[name] = entered.value
            else:
                merged.pop(name, None)
        return merged

    def document(self) -> dict[str, dict[str, Any]]:
        """The whole document of the scope; a skill that sets nothing is not in it."""
        skills = {
            slug: dict(fields) for slug, fields in self.drafts.get(self.scope.path, {}).items()
        }
        skills[self.entry.slug] = self.fields()
        return {slug: fields for slug, fields in skills.items() if fields}

    # -------------------------------------------------------------------------------- one field

    def _state(self, spec: SchemaField) -> FieldState:
        value, is_set, texts = self._current(spec)
        said = self._said(spec, value if is_set else UNSET)
        errors = [*self._error_texts(spec.name)]
        return FieldState(
            spec=spec,
            is_set=is_set,
            value=value,
            texts=tuple(texts),
            origin=self._origin(said),
            is_draft=self._is_draft(spec, value if is_set else UNSET),
            said=tuple(said),
            base=state_text(spec.control, self.own.get(spec.name, UNSET)),
            errors=tuple(errors),
            theirs=self.theirs.get(spec.name, ""),
            suggestions=self.regions if spec.control.known == "regions" else (),
            inherited=self._union_of_wider(spec),
        )

    def _current(self, spec: SchemaField) -> tuple[Any, bool, list[str]]:
        entered = (self.mine or {}).get(spec.name)
        if entered is not None and entered.changed and (entered.is_set or entered.error):
            texts = entered.texts if entered.error else spec.control.encode(entered.value)
            return entered.value, True, texts
        left = entered is not None and entered.changed and not entered.is_set
        if spec.name in self.own and not left:
            value = self.own[spec.name]
            return value, True, spec.control.encode(value)
        value = self._inherited(spec)
        return value, False, spec.control.encode(value)

    def _inherited(self, spec: SchemaField) -> Any:
        return self._walk(spec, UNSET)[0]

    def _walk(self, spec: SchemaField, own: Any) -> tuple[Any, tuple[str, ...]]:
        """Value in force at this scope and the scopes that decided it, by the merge mode of the field."""
        rule = self._rules[spec.name]
        layers = [*self.wider]
        if own is not UNSET:
            layers.append(
                (self.scope.path, self._layer({"": {self.entry.slug: {spec.name: own}}}, ""))
            )
        value: Any = UNSET
        origin: tuple[str, ...] = ("default",)
        for scope, layer in layers:
            if spec.name not in layer:
                continue
            if value is UNSET:
                value, origin = layer[spec.name], (scope,)
                continue
            combined = rule.combine(value, layer[spec.name])
            kept, taken = combined == value, combined == layer[spec.name]
            origin = origin if kept else (scope,) if taken else (*origin, scope)
            value = combined
        plain = spec.default if value is UNSET else self._plain({spec.name: value})[spec.name]
        return plain, origin

    @cached_property
    def _rules(self) -> Mapping[str, FieldRule]:
        return field_rules(self.entry.config)

    def _said(self, spec: SchemaField, own: Any) -> list[Said]:
        _, origin = self._walk(spec, own)
        found = [Said("default", value_words(spec, spec.default), "default" in origin)]
        for scope, layer in self.wider:
            if spec.name in layer:
                words = value_words(spec, self._plain(layer)[spec.name])
                found.append(Said(self._who(scope, spec), words, scope in origin))
        if own is not UNSET:
            here = self._who(self.scope.path, spec, own)
            found.append(Said(here, value_words(spec, own), self.scope.path in origin))
        return found

    def _who(self, scope: str, spec: SchemaField, own: Any = UNSET) -> str:
        """`tenant Acme v3`, or `… draft` where it is not what was published."""
        stands = (
            self._plain(self._layer(self.drafts, scope)).get(spec.name, UNSET)
            if own is UNSET
            else own
        )
        sent = self._plain(self._layer(self.published, scope)).get(spec.name, UNSET)
        same = state_text(spec.control, stands) == state_text(spec.control, sent)
        return f"{scope_words(scope)} {f'v{self.version}' if same else 'draft'}"

    def _origin(self, said: list[Said]) -> str:
        return ", ".join(each.who for each in said if each.decides)

    def _is_draft(self, spec: SchemaField, own: Any) -> bool:
        sent = self._plain(self._layer(self.published, self.scope.path)).get(spec.name, UNSET)
        return state_text(spec.control, own) != state_text(spec.control, sent)

    def _union_of_wider(self, spec: SchemaField) -> tuple[str, ...]:
        if spec.merge != "union" or not any(spec.name in layer for _, layer in self.wider):
            return ()
        return tuple(spec.control.encode(self._inherited(spec)))

    def _error_texts(self, name: str) -> list[str]:
        entered = (self.mine or {}).get(name)
        found = [entered.error] if entered is not None and entered.error else []
        place = f"/skills/{self.entry.slug}/{name}"
        for problem in self.problems:
            here = problem.pointer == place or problem.pointer.startswith(f"{place}/")
            if problem.severity == "error" and problem.scope == self.scope.path and here:
                found.append(
                    sentence(problem.message.replace(problem.scope, scope_words(problem.scope)))
                )
        return found

    def _layer(self, documents: Documents, scope: str) -> Layer:
        fields = documents.get(scope, {}).get(self.entry.slug, {})
        document = PolicyDocument.model_construct(
            scope=scope, skills={self.entry.slug: dict(fields)}
        )
        return parse_document(document)[0].get(self.entry.slug, {})

    def _plain(self, layer: Layer) -> dict[str, Any]:
        return {
            name: self._rules[name].adapter.dump_python(value, mode="json")
            for name, value in layer.items()
        }


def entered(entry: Skill, post: QueryDict) -> dict[str, Entered]:
    return read(schema_fields(entry.config), post)


def value_words(spec: SchemaField, value: Any) -> str:
    """A value as people say it: `no restriction`, `none`, `10000 ms`."""
    if value is UNSET:
        return "inherited"
    if value is None:
        return "no restriction"
    if value == []:
        return "none"
    texts = spec.control.encode(value)
    more = f" and {len(texts) - _LIST_MAX} more" if len(texts) > _LIST_MAX else ""
    return f"{', '.join(texts[:_LIST_MAX])}{more} {spec.control.unit}".strip()


def sentence(text: str) -> str:
    """Pydantic's findings as a sentence: capital, full stop, without its own preface."""
    plain = text.removeprefix("Value error, ").strip()
    return (plain[:1].upper() + plain[1:]).rstrip(".") + "." if plain else ""
