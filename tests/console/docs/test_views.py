"""Documents inside the product: found by name, escaped, and drawn without inline styles."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.conf import settings
from django.test import Client

from console.accounts.models import User
from console.docs.library import Document, documents
from policies.catalogue import CATALOGUE

pytestmark = pytest.mark.django_db


def signed_in(role: str) -> Client:
    client = Client()
    client.force_login(User.objects.create_user(role, "a long password", role=role))
    return client


@pytest.mark.parametrize("role", ["admin", "finance", "developer"])
def test_every_document_opens_for_every_role(role: str) -> None:
    client = signed_in(role)
    home = client.get("/docs/").content.decode()
    for document in documents():
        address = f"/docs/{document.section}/{document.slug}/"
        assert address in home
        html = client.get(address).content.decode()
        assert "<h1>" in html
        assert "style=" not in html


def test_every_skill_and_every_decision_is_among_them() -> None:
    found = {(each.section, each.slug) for each in documents()}
    decisions = Path(settings.BASE_DIR, "templates", "docs", "decisions").glob("*.md")
    assert {("skills", entry.slug) for entry in CATALOGUE} <= found
    assert {("decisions", path.stem) for path in decisions} <= found


def test_nobody_is_sent_to_sign_in() -> None:
    for url in ("/docs/", "/docs/guides/spend/"):
        assert Client().get(url)["Location"].startswith("/sign-in/")


@pytest.mark.parametrize(
    "url",
    [
        "/docs/guides/nope/",
        "/docs/nope/spend/",
        "/docs/guides/..%2Fdecisions%2F0001/",
        "/docs/guides/../../manage/",
    ],
)
def test_a_name_that_was_not_found_is_a_404(url: str) -> None:
    assert signed_in("admin").get(url).status_code == 404


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
