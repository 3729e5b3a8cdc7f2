"""Documents inside the product: found by name, for every role."""

from __future__ import annotations

import pytest
from django.test import Client

from console.accounts.models import User
from console.docs.library import documents

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
