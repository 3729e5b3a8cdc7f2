"""What the product can answer is documented, and the documents lead somewhere and can be copied."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.test import RequestFactory
from django.urls import Resolver404, resolve

from console.docs.library import Document, document_find, documents, error_find
from console.errors import ConsoleError
from console.rest import problems
from gateway.protocols.errors import CODES
from tests.laws.sources import ROOT

RAISED = {"InputError", "Missing", "Conflict", "Unavailable", "Malformed", "PublishRefused"}
FENCE = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:)([^)#]+)[^)]*\)")


def _kinds(kind: type[ConsoleError]) -> Iterator[type[ConsoleError]]:
    yield kind
    for child in kind.__subclasses__():
        yield from _kinds(child)


def _codes_of_calls(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        if node.func.id in RAISED:
            given = [word.value for word in node.keywords if word.arg == "code"]
            given += node.args[1:] if node.func.id == "Malformed" else []
            yield from (str(each.value) for each in given if isinstance(each, ast.Constant))


def management_codes() -> list[str]:
    found = {kind.code for kind in _kinds(ConsoleError)} | set(problems._CODES.values())
    for path in (ROOT / "console").rglob("*.py"):
        found.update(_codes_of_calls(path))
    return sorted(found | {problems.Stale.default_code})


def _guides() -> list[Document]:
    return [each for each in documents() if each.section == "guides"]


@pytest.mark.parametrize("code", sorted(CODES))
def test_each_code_of_the_gateway_is_documented(code: str) -> None:
    found = error_find(code)
    assert found is not None
    assert CODES[code].message in found.text


@pytest.mark.parametrize("code", management_codes())
def test_each_code_of_the_management_api_is_documented(code: str) -> None:
    page = document_find("guides", "errors")
    assert page is not None
    assert f"\n| `{code}` |" in page.text.split("## From the management API")[1]


def test_the_type_of_a_problem_is_an_address_that_opens() -> None:
    document = problems.problem(RequestFactory().get("/api/v1/tenants"), 404, "It is not there.")
    match = resolve(document["type"])
    assert match.view_name == "docs:error"
    assert error_find(match.kwargs["code"]) is not None


def test_a_code_that_nobody_sends_has_no_page() -> None:
    assert error_find("no_such_code") is None


@pytest.mark.parametrize("document", documents(), ids=lambda each: f"{each.section}/{each.slug}")
def test_each_link_between_documents_leads_somewhere(document: Document) -> None:
    for target in LINK.findall(document.text):
        parts = target.strip("/").split("/")
        if parts[0] == "docs" and len(parts) == len(("docs", "section", "slug")):
            assert document_find(parts[1], parts[2]), target
            continue
        try:
            resolve(target)
        except Resolver404:
            pytest.fail(f"{document.section}/{document.slug} links to {target}")


@pytest.mark.parametrize("document", _guides(), ids=lambda each: each.slug)
def test_each_example_can_be_read(document: Document) -> None:
    for language, text in FENCE.findall(document.text):
        if language == "python":
            compile(text, document.slug, "exec")
        elif language == "sh":
            for line in text.replace("\\\n", " ").splitlines():
                shlex.split(line, comments=True)


def test_each_header_an_application_is_told_of_is_in_the_gateway() -> None:
    page = document_find("guides", "applications")
    assert page is not None
    given = page.text.split("## Headers you get")[1].split("\n## ")[0]
    names = [name for row in given.splitlines() for name in re.findall("`([a-z-]+)`", row[:80])]
    source = "".join(path.read_text() for path in (ROOT / "gateway").rglob("*.py"))
    assert "x-request-id" in names
    assert [name for name in names if name not in source] == []
