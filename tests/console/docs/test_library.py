"""What is shown as documentation, and that nothing in a document is obeyed."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.conf import settings

from console.docs.library import Document, documents
from policies.catalogue import CATALOGUE


def test_every_skill_and_every_decision_is_among_them() -> None:
    found = {(each.section, each.slug) for each in documents()}
    decisions = Path(settings.BASE_DIR, "templates", "docs", "decisions").glob("*.md")
    assert {("skills", entry.slug) for entry in CATALOGUE} <= found
    assert {("decisions", path.stem) for path in decisions} <= found


def test_marks_of_generators_are_not_shown() -> None:
    assert not any("cog" in each.html for each in documents() if each.section == "skills")


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "[x](javascript:alert(1))",
        "![x](https://evil.example/x.png)",
        "| a |\n|--:|\n| <b onclick=x>1</b> |",
    ],
)
def test_markup_in_a_document_is_text(text: str) -> None:
    html = Document("guides", "x", "x", text).html
    assert "<script" not in html
    assert "<img" not in html
    assert "<b " not in html
    assert 'href="javascript' not in html
    assert "style=" not in html
