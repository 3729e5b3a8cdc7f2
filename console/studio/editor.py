"""What the pages of the studio read before they draw: drafts, what is published, and what the compiler says."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.http import QueryDict

from console.studio import selectors
from console.studio.forms import Documents, SkillForm, entered, sentence, value_words
from console.studio.models import PolicyDraft
from console.studio.scopes import Scope, scope_words
from console.ui.schema_form import UNSET, Entered, schema_fields, state_text
from console.ui.yaml_text import YamlProblem, dump, load
from policies.catalogue import CATALOGUE, is_skill, skill
from policies.compiler import Inventory, Problem, lint
from policies.contract.manifest import Skill
from policies.schema.snapshot import PolicyDocument


@dataclass(frozen=True, slots=True)
class Desk:
    """Everything of one moment, read once for a page."""

    drafts: Documents
    published: Documents
    version: int
    inventory: Inventory

    def problems(self, scope: str, document: Mapping[str, Any]) -> list[Problem]:
        """What publishing would meet if `document` stood at `scope`."""
        skills = {**self.drafts, scope: document}
        return lint(
            self.inventory,
            [
                PolicyDocument.model_construct(scope=name, skills=dict(fields))
                for name, fields in sorted(skills.items())
                if fields
            ],
        )

    @property
    def regions(self) -> tuple[str, ...]:
        """Where the endpoints of this installation are, as far as that is known."""
        ends = (end for pool in self.inventory.pools for end in pool.endpoints)
        return tuple(sorted({end.region for end in ends if end.region}))


def desk_read() -> Desk:
    newest = selectors.revision_newest()
    published = {each["scope"]: each["skills"] for each in (newest.documents if newest else ())}
    drafts = {draft.scope: draft.skills for draft in PolicyDraft.objects.all()}
    return Desk(drafts, published, newest.number if newest else 0, selectors.inventory())


def skill_form(
    desk: Desk, entry: Skill, scope: Scope, mine: Mapping[str, Entered] | None = None
) -> SkillForm:
    """With every finding of the compiler on what is entered."""
    form = SkillForm(
        entry, scope, desk.drafts, desk.published, desk.version, mine, regions=desk.regions
    )
    return _with(form, problems=desk.problems(scope.path, form.document()))


def _with(form: SkillForm, **changes: Any) -> SkillForm:
    fields = {name: getattr(form, name) for name in SkillForm.__dataclass_fields__}
    return SkillForm(**(fields | changes))


def skill_form_posted(desk: Desk, entry: Skill, scope: Scope, post: QueryDict) -> SkillForm:
    return skill_form(desk, entry, scope, entered(entry, post))


def with_theirs(form: SkillForm, post: QueryDict) -> SkillForm:
    """Beside each field that this person and somebody else changed to different values, what the other one saved."""
    found = {}
    for spec in schema_fields(form.entry.config):
        now, mine = form.own.get(spec.name, UNSET), (form.mine or {})[spec.name]
        moved = post.get(f"base.{spec.name}", "-") != state_text(spec.control, now)
        if moved and mine.changed and mine.value != now:
            found[spec.name] = value_words(spec, now)
    return _with(form, theirs=found)


# ------------------------------------------------------------------------------------------ the skill list


@dataclass(frozen=True, slots=True)
class Listed:
    slug: str
    title: str
    mode: str
    changed: bool


LAYERS: Mapping[str, str] = {
    "L7": "L7 Agents",
    "L6": "L6 Requests",
    "L5": "L5 Engines",
    "L4": "L4 Models",
    "L3": "L3 Acceleration",
    "L2": "L2 Hardware",
    "L1": "L1 Fleet",
}


def skill_list(desk: Desk, scope: Scope) -> list[tuple[str, list[Listed]]]:
    """By layer, topmost first, with the mode in force at the scope."""
    found: list[tuple[str, list[Listed]]] = []
    for layer, title in LAYERS.items():
        entries = [_listed(desk, entry, scope) for entry in CATALOGUE if entry.layer == layer]
        if entries:
            found.append((title, entries))
    return found


def _listed(desk: Desk, entry: Skill, scope: Scope) -> Listed:
    at = scope if scope.chosen else Scope("global")
    form = SkillForm(entry, at, desk.drafts, desk.published, desk.version)
    mode = form.mode
    changed = desk.drafts.get(at.path, {}).get(entry.slug, {}) != desk.published.get(
        at.path, {}
    ).get(entry.slug, {})
    return Listed(entry.slug, entry.title, mode, changed)


# ------------------------------------------------------------------------------------------ YAML


def document_text(scope: Scope, skills: Mapping[str, Any]) -> str:
    return dump({"scope": scope.path, "skills": dict(skills)})


def document_parse(scope: Scope, text: str) -> tuple[dict[str, Any], list[str]]:
    """The skills of a document as somebody typed it, and what is wrong with its outline."""
    try:
        document = load(text)
    except YamlProblem as error:
        return {}, [str(error)]
    if not isinstance(document, dict):
        return {}, ["The document must begin with `scope:` and `skills:`."]
    return _skills_of(scope, document)


def _skills_of(scope: Scope, document: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    wrong = [
        f"There is no key {key}.{near(key, ['scope', 'skills'])}"
        for key in document
        if key not in ("scope", "skills")
    ]
    if document.get("scope", scope.path) != scope.path:
        wrong.append(f"This page edits {scope.path}; the document says {document['scope']}.")
    skills = document.get("skills") or {}
    if not isinstance(skills, dict):
        return {}, [*wrong, "`skills` must name skills, each with its fields."]
    for slug, fields in skills.items():
        if not isinstance(fields, dict):
            wrong.append(f"`{slug}` must name fields, each with its value.")
    return skills, wrong


def suggestions(problems: Sequence[Any]) -> list[str]:
    """Findings of a document in words, with the name that was probably meant."""
    return [
        f"{problem.pointer.removeprefix('/skills/')}: {problem.message}{_meant(problem)}"
        for problem in problems
    ]


def _meant(problem: Any) -> str:
    slug, _, name = problem.pointer.removeprefix("/skills/").partition("/")
    if problem.code == "unknown_skill":
        return near(slug, [entry.slug for entry in CATALOGUE])
    if problem.code == "unknown_field" and is_skill(slug):
        return near(name, list(skill(slug).config.model_fields))
    return ""


def near(word: str, words: Sequence[str]) -> str:
    found = difflib.get_close_matches(word, words, 1, 0.5)
    return f" Did you mean {found[0]}?" if found else ""


def readable(problems: Sequence[Problem]) -> list[tuple[str, Problem]]:
    """Each finding with its place in words, and names for ids in its sentence."""
    return [(place_words(each.scope), _named(each)) for each in problems]


def _named(problem: Problem) -> Problem:
    words = place_words(problem.scope)
    return replace(problem, message=sentence(problem.message.replace(problem.scope, words)))


def place_words(scope: str) -> str:
    """Scope of a finding; places of the inventory keep their path."""
    return (
        scope_words(scope)
        if scope.partition("/")[0] in ("global", "tenants", "keys", "models")
        else scope
    )
