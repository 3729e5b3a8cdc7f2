"""The documents shown inside the product: guides, one page a skill, decisions. Read from the tree, once a process."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from django.conf import settings
from django.utils.safestring import SafeString
from markdown_it import MarkdownIt

from policies.catalogue import CATALOGUE

SECTIONS: Final = {"guides": "Guides", "skills": "Skills", "decisions": "Decisions"}


_COMMENT: Final = re.compile("<!--.*?-->\n?", re.DOTALL)
"""Marks for the tools that write generated parts."""
_TABLE: Final = re.compile(r"(?:^\|.*\n)+", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Document:
    section: str
    slug: str
    title: str
    text: str

    @property
    def html(self) -> SafeString:
        """HTML in the text is shown, not obeyed; only what Markdown itself makes is markup."""
        return SafeString(_renderer().render(self.text))


@cache
def documents() -> tuple[Document, ...]:
    return tuple(_read())


def document_find(section: str, slug: str) -> Document | None:
    """By name among those that were found: no name from an address is ever used as a path."""
    return next(
        (each for each in documents() if (each.section, each.slug) == (section, slug)), None
    )


def error_find(code: str) -> Document | None:
    """What the page of errors says of one code: the address that a problem document names as its `type`."""
    page = document_find("guides", "errors")
    if page is None:
        return None
    tables = [_rows_of(code, table) for table in _TABLE.findall(page.text)]
    found = [table for table in tables if table]
    if not found:
        return None
    text = "\n\n".join((f"# `{code}`", *found, "[Every error](/docs/guides/errors/)"))
    return Document("guides", "errors", code, text)


def _rows_of(code: str, table: str) -> str:
    """The table's head and the rows whose first cell is `code`; empty when there are none."""
    head, rule, *rows = table.strip().splitlines()
    kept = [row for row in rows if row.startswith(f"| `{code}` |")]
    return "\n".join((head, rule, *kept)) if kept else ""


def _read() -> Iterator[Document]:
    root = Path(settings.BASE_DIR)
    for path in sorted((root / "templates" / "docs").glob("*.md")):
        yield _document("guides", path.stem, path)
    for entry in CATALOGUE:
        path = root / "policies" / "skills" / entry.slug / "README.md"
        if path.exists():
            yield _document("skills", entry.slug, path, entry.title)
    for path in sorted((root / "templates" / "docs" / "decisions").glob("*.md")):
        yield _document("decisions", path.stem, path)


def _document(section: str, slug: str, path: Path, title: str = "") -> Document:
    text = _COMMENT.sub("", path.read_text(encoding="utf-8"))
    first = text.lstrip().partition("\n")[0]
    found = first.lstrip("# ").strip() if first.startswith("#") else slug
    return Document(section, slug, title or found, text)


@cache
def _renderer() -> MarkdownIt:
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table").disable("image")
    for kind in ("th_open", "td_open"):
        markdown.add_render_rule(kind, _cell)
    markdown.add_render_rule("table_open", _table_open)
    markdown.add_render_rule("table_close", _table_close)
    return markdown


def _cell(renderer: Any, tokens: Any, place: int, options: Any, env: Any) -> str:
    """Alignment would be an inline style, which the content security policy forbids."""
    token = tokens[place]
    style = str(token.attrs.pop("style", ""))
    if "right" in style:
        token.attrs["class"] = "n"
    return str(renderer.renderToken(tokens, place, options, env))


def _table_open(*_: Any) -> str:
    return '<div class="tbl-wrap" tabindex="0" role="region" aria-label="Table"><table class="tbl doc__tbl">'


def _table_close(*_: Any) -> str:
    return "</table></div>"
