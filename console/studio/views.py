"""Pages of the policy studio: the skill form, its live check, the same document as YAML."""

from __future__ import annotations

import re
from typing import Any, Final
from urllib.parse import urlencode

from django.contrib.messages import success
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from console.accounts.permissions import actor_of, permission_required
from console.errors import Conflict, InputError, Missing
from console.specs import parse_json
from console.studio import editor, selectors
from console.studio.editor import Desk, desk_read, skill_form, skill_form_posted, with_theirs
from console.studio.forms import SkillForm
from console.studio.models import PolicyDraft
from console.studio.scopes import KIND_WORDS, Scope, choices, scope_find, scope_words
from console.studio.services import DraftSpec, document_save
from console.ui.http import CONFLICT, UNPROCESSABLE, go_to, render_page
from console.ui.question import Question, ask, ask_again
from policies.catalogue import CATALOGUE, is_skill, skill
from policies.contract.manifest import Skill

TEMPLATE: Final = "console/studio/skill.html"
_EDITION: Final = re.compile("[0-9]{1,18}")


@require_safe
@permission_required("policies.read")
def home_view(request: HttpRequest) -> HttpResponse:
    return HttpResponseRedirect(reverse("studio:skill", args=[CATALOGUE[0].slug]))


@require_http_methods(["GET", "HEAD", "POST"])
@permission_required("policies.write")
def skill_view(request: HttpRequest, slug: str) -> HttpResponse:
    """One skill at one scope. A post saves the draft; nothing takes effect before a publish."""
    entry, scope = _entry(slug), _scope(request)
    if not scope.chosen:
        return _pick(request, entry, scope)
    desk, draft = desk_read(), selectors.draft_get(actor_of(request), scope.path)
    if request.method != "POST":
        return _page(request, desk, skill_form(desk, entry, scope), draft)
    form = skill_form_posted(desk, entry, scope, request.POST)
    if _edition(request) != draft.edition:
        return _stale(request, desk, with_theirs(form, request.POST), draft)
    if not form.readable:
        return _page(request, desk, form, draft, status=UNPROCESSABLE)
    return _save(request, desk, form, draft)


def _save(request: HttpRequest, desk: Desk, form: SkillForm, draft: PolicyDraft) -> HttpResponse:
    try:
        spec = parse_json(DraftSpec, {"skills": form.document()})
        saved = document_save(actor_of(request), form.scope.path, spec, draft.edition)
    except InputError as error:
        return _page(request, desk, form, draft, status=UNPROCESSABLE, refused=error.detail)
    except Conflict:
        fresh, newest = desk_read(), selectors.draft_get(actor_of(request), form.scope.path)
        again = skill_form_posted(fresh, form.entry, form.scope, request.POST)
        return _stale(request, fresh, with_theirs(again, request.POST), newest)
    if saved.edition != draft.edition:
        success(request, "Draft saved. Workers keep what they have until you publish.")
    return go_to(request, _url(form.entry.slug, form.scope.path))


def _stale(request: HttpRequest, desk: Desk, form: SkillForm, draft: PolicyDraft) -> HttpResponse:
    return _page(request, desk, form, draft, status=CONFLICT, stale=True)


@require_POST
@permission_required("policies.write")
def check_view(request: HttpRequest, slug: str) -> HttpResponse:
    """While somebody types: chips, messages, lint and YAML of what is entered. Saves nothing."""
    entry, scope = _entry(slug), _scope(request)
    desk = desk_read()
    form = skill_form_posted(desk, entry, scope, request.POST)
    context = _context(desk, form, selectors.draft_get(actor_of(request), scope.path))
    return render(request, "console/studio/_check.html", context)


@require_POST
@permission_required("policies.write")
def yaml_view(request: HttpRequest, slug: str) -> HttpResponse:
    """Saves the whole document of a scope as it was typed, through the same checks as the form."""
    entry, scope = _entry(slug), _scope(request)
    text = request.POST.get("document", "").replace("\r\n", "\n")
    desk, draft = desk_read(), selectors.draft_get(actor_of(request), scope.path)
    skills, wrong = editor.document_parse(scope, text)
    if not wrong:
        wrong = _yaml_save(request, scope, skills)
    if not wrong:
        success(request, "Draft saved. Workers keep what they have until you publish.")
        return go_to(request, _url(slug, scope.path))
    yaml = {"yaml_text": text, "yaml_wrong": wrong}
    status = UNPROCESSABLE if _edition(request) == draft.edition else CONFLICT
    return _page(request, desk, skill_form(desk, entry, scope), draft, status=status, **yaml)


def _yaml_save(request: HttpRequest, scope: Scope, skills: dict[str, Any]) -> list[str]:
    try:
        spec = parse_json(DraftSpec, {"skills": skills})
        document_save(actor_of(request), scope.path, spec, _edition(request))
    except Conflict:
        return [
            "Somebody saved this document while you were typing. The form shows theirs, this field yours."
        ]
    except InputError as error:
        return editor.suggestions(error.problems) or [error.detail]
    return []


@require_http_methods(["GET", "HEAD", "POST"])
@permission_required("policies.write")
def discard_view(request: HttpRequest, slug: str) -> HttpResponse:
    """The draft of a scope goes back to what is published."""
    _entry(slug)
    scope, desk = _scope(request), desk_read()
    question = Question(
        title=f"Discard the draft of {scope_words(scope.path)}?",
        effect="All changes of all skills since the last publish are dropped at this scope. Workers are not touched.",
        submit="Discard draft",
        back_url=_url(slug, scope.path),
        back_label="Studio",
        bad=True,
    )
    if request.method != "POST":
        return ask(request, question)
    try:
        spec = parse_json(DraftSpec, {"skills": desk.published.get(scope.path, {})})
        document_save(actor_of(request), scope.path, spec)
    except InputError as error:
        return ask_again(request, question, error.detail)
    success(request, f"Draft of {scope_words(scope.path)} discarded")
    return go_to(request, question.back_url)


# ------------------------------------------------------------------------------------------ drawing


def _page(
    request: HttpRequest,
    desk: Desk,
    form: SkillForm,
    draft: PolicyDraft,
    *,
    status: int = 200,
    **more: Any,
) -> HttpResponse:
    context = {**_context(desk, form, draft), **more}
    return render_page(request, TEMPLATE, context, status=status)


def _context(desk: Desk, form: SkillForm, draft: PolicyDraft) -> dict[str, Any]:
    document = form.document()
    published = desk.published.get(form.scope.path, {})
    return {
        "form": form,
        "entry": form.entry,
        "role_words": form.entry.role.replace("_", " "),
        "scope": form.scope,
        "draft": draft,
        "tabs": _tabs(form.entry.slug, form.scope),
        "skills": editor.skill_list(desk, form.scope),
        "problems": editor.readable(form.problems),
        "error_total": sum(each.severity == "error" for each in form.problems),
        "yaml_text": editor.document_text(form.scope, document),
        "version": desk.version,
        "draft_differs": desk.drafts.get(form.scope.path, {}) != published,
        "drafts_differ": selectors.drafts_differ(),
        "query": urlencode({"scope": form.scope.path}),
    }


def _pick(request: HttpRequest, entry: Skill, scope: Scope) -> HttpResponse:
    search = request.GET.get("search", "").strip().replace("\0", "")[:120]
    desk = desk_read()
    context = {
        "entry": entry,
        "scope": scope,
        "search": search,
        "choices": choices(scope.kind, search),
        "kind_words": KIND_WORDS[scope.kind].lower(),
        "tabs": _tabs(entry.slug, scope),
        "skills": editor.skill_list(desk, scope),
        "query": urlencode({"scope": scope.kind}),
        "drafts_differ": selectors.drafts_differ(),
        "version": desk.version,
    }
    return render_page(request, "console/studio/pick.html", context, part="list")


def _tabs(slug: str, scope: Scope) -> list[dict[str, Any]]:
    return [
        {
            "url": _url(slug, kind),
            "title": f"{words}: {scope.label}"
            if scope.kind == kind and scope.name
            else f"{words}s"
            if kind != "global"
            else words,
            "current": scope.kind == kind,
        }
        for kind, words in KIND_WORDS.items()
    ]


def _url(slug: str, scope: str) -> str:
    query = "" if scope == "global" else f"?{urlencode({'scope': scope})}"
    return reverse("studio:skill", args=[slug]) + query


def _entry(slug: str) -> Skill:
    if not is_skill(slug):
        raise Http404
    return skill(slug)


def _scope(request: HttpRequest) -> Scope:
    try:
        return scope_find(request.GET.get("scope", "global"))
    except Missing:
        raise Http404 from None


def _edition(request: HttpRequest) -> int:
    text = request.POST.get("edition", "")
    return int(text) if _EDITION.fullmatch(text) else -1
