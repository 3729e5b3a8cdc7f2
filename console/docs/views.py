"""Pages of the documentation."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from console.accounts.permissions import permission_required
from console.docs.library import SECTIONS, Document, document_find, documents, error_find
from console.ui.http import render_page


@require_safe
@permission_required("docs.read")
def home_view(request: HttpRequest) -> HttpResponse:
    return render_page(request, "console/docs/home.html", {"sections": _sections()})


@require_safe
@permission_required("docs.read")
def page_view(request: HttpRequest, section: str, slug: str) -> HttpResponse:
    document = document_find(section, slug)
    if document is None:
        raise Http404
    context = {"document": document, "sections": _sections(), "section": SECTIONS[section]}
    return render_page(request, "console/docs/page.html", context)


@require_safe
@permission_required("docs.read")
def error_view(request: HttpRequest, code: str) -> HttpResponse:
    document = error_find(code)
    if document is None:
        raise Http404
    context = {"document": document, "sections": _sections(), "section": SECTIONS["guides"]}
    return render_page(request, "console/docs/page.html", context)


def _sections() -> list[tuple[str, list[Document]]]:
    found = [
        (title, [each for each in documents() if each.section == name])
        for name, title in SECTIONS.items()
    ]
    return [(title, pages) for title, pages in found if pages]
