"""Pages of publishing: review, versions, roll back, and how far the workers are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.contrib.messages import success
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe

from console.accounts.permissions import actor_of, permission_required
from console.errors import ConsoleError, Unavailable
from console.specs import Note, Spec, parse
from console.studio import selectors
from console.studio.editor import readable
from console.studio.models import PolicyRevision, SnapshotRecord
from console.studio.review import changes, reach, refusal_lines
from console.studio.services import PublishRefused, publish, rollback
from console.ui.http import CONFLICT, UNPROCESSABLE, go_to, render_page
from console.ui.paging import page_of
from console.ui.question import Question, ask, ask_again


class NoteSpec(Spec):
    note: Note = ""


@require_http_methods(["GET", "HEAD", "POST"])
@permission_required("publish")
def review_view(request: HttpRequest) -> HttpResponse:
    """What would change, what the compiler says, and the button that sends it."""
    if request.method != "POST":
        return _review(request)
    if request.POST.get("fingerprint", "") != _fingerprint():
        return _review(request, status=CONFLICT, moved=True)
    try:
        note = parse(NoteSpec, {"note": request.POST.get("note", "").replace("\r\n", "\n")}).note
        done = publish(actor_of(request), note)
    except PublishRefused as error:
        lines = refusal_lines(error.problems) or [("", error.detail)]
        return _review(request, status=UNPROCESSABLE, refused=lines)
    except ConsoleError as error:
        words = "; ".join(problem.message for problem in error.problems) or error.detail
        return _review(request, status=UNPROCESSABLE, note_error=f"The note {words}.")
    success(request, f"Version {done.version} published")
    return go_to(request, reverse("studio:revision", args=[done.revision]))


def _review(request: HttpRequest, *, status: int = 200, **more: Any) -> HttpResponse:
    newest = selectors.revision_newest()
    changed = changes(selectors.revision_documents(newest), selectors.draft_documents())
    problems = selectors.draft_problems()
    context = {
        "changed": changed,
        "field_total": sum(len(each.fields) for each in changed),
        "reach": reach(changed),
        "errors": readable([p for p in problems if p.severity == "error"]),
        "warnings": readable([p for p in problems if p.severity == "warning"]),
        "base": newest,
        "fingerprint": _fingerprint(),
        "note": request.POST.get("note", ""),
        **more,
    }
    return render_page(request, "console/studio/review.html", context, status=status)


def _fingerprint() -> str:
    """What a person looked at is what they publish: editions of all drafts, and the version below them."""
    newest = selectors.revision_newest()
    editions = selectors.draft_editions()
    return f"{newest.number if newest else 0}:{editions}"


@require_safe
@permission_required("policies.read")
def versions_view(request: HttpRequest) -> HttpResponse:
    page = page_of(request, selectors.revisions(actor_of(request)))
    context = {
        "page": page,
        "revisions": _with_versions(page.rows),
        "snapshots": list(selectors.snapshots()[:25]),
        "drafts_differ": selectors.drafts_differ(),
        "live": page.rows[0].number if page.number == 1 and page.rows else None,
        **worker_context(),
    }
    return render_page(request, "console/studio/versions.html", context)


@require_safe
@permission_required("policies.read")
def revision_view(request: HttpRequest, number: int) -> HttpResponse:
    revision = _revision(request, number)
    before = PolicyRevision.objects.filter(number__lt=number).first()
    newest = selectors.revision_newest()
    context = {
        "revision": revision,
        "version": _versions_of([revision]).get(number),
        "before": before,
        "is_live": newest is not None and newest.number == number,
        "changed": changes(
            selectors.revision_documents(before), selectors.revision_documents(revision)
        ),
        **worker_context(),
    }
    return render_page(request, "console/studio/revision.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@permission_required("publish")
def rollback_view(request: HttpRequest, number: int) -> HttpResponse:
    revision = _revision(request, number)
    newest = selectors.revision_newest()
    stands = selectors.revision_documents(newest)
    changed = changes(stands, selectors.revision_documents(revision))
    fields = sum(len(each.fields) for each in changed)
    lost = " Unpublished drafts are replaced as well." if selectors.drafts_differ() else ""
    question = Question(
        title=f"Roll back to revision {number}?",
        effect=f"{_fields_change(fields)}. The old documents go out as a new version, so no history is lost.{lost}",
        submit="Roll back",
        back_url=reverse("studio:revision", args=[number]),
        back_label="Versions",
        bad=True,
    )
    if request.method != "POST":
        return ask(request, question)
    try:
        done = rollback(actor_of(request), number, f"roll back to revision {number}")
    except ConsoleError as error:
        return ask_again(request, question, _because(error))
    success(
        request, f"Rolled back: version {done.version} holds the documents of revision {number}"
    )
    return go_to(request, reverse("studio:revision", args=[done.revision]))


def _fields_change(count: int) -> str:
    return "1 field changes" if count == 1 else f"{count} fields change"


def _because(error: ConsoleError) -> str:
    lines = [f"{place} {text}".strip() for place, text in refusal_lines(error.problems)]
    return " ".join([error.detail, *lines])


@require_safe
@permission_required("policies.read")
def workers_view(request: HttpRequest) -> HttpResponse:
    """The table alone; it asks again each second until every worker has answered."""
    return render(request, "console/studio/_workers.html", worker_context())


def worker_context() -> dict[str, Any]:
    try:
        found = selectors.workers()
    except Unavailable as error:
        return {"workers": None, "workers_trouble": error.detail, "polls": True}
    same = sum(worker.converged for worker in found)
    return {
        "workers": found,
        "same": same,
        "newest": selectors.version_newest(),
        "polls": not found or any(not worker.converged for worker in found),
    }


def _revision(request: HttpRequest, number: int) -> PolicyRevision:
    found = selectors.revisions(actor_of(request)).filter(pk=number).first()
    if found is None:
        raise Http404
    return found


def _versions_of(revisions: Sequence[PolicyRevision]) -> dict[int, int]:
    """The snapshot each revision first went out with, as far as snapshots are kept."""
    rows = SnapshotRecord.objects.filter(policy_revision__in=[each.number for each in revisions])
    return dict(rows.order_by("-version").values_list("policy_revision", "version"))


def _with_versions(revisions: Sequence[PolicyRevision]) -> list[tuple[PolicyRevision, int | None]]:
    versions = _versions_of(revisions)
    return [(each, versions.get(each.number)) for each in revisions]
