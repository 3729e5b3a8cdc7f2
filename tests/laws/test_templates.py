"""The strict policy of the pages, kept by the templates: nothing inline, nothing evaluated."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TEMPLATES = sorted((ROOT / "templates").rglob("*.html"))
COMMENT = re.compile(r"{%\s*comment.*?endcomment\s*%}|{#.*?#}", re.DOTALL)
FORBIDDEN = {
    "an inline style": re.compile(r"""\sstyle\s*=|<style\b""", re.IGNORECASE),
    "an inline script": re.compile(r"<script(?![^>]*\ssrc=)", re.IGNORECASE),
    "an inline handler": re.compile(r"""<[^>]*\son[a-z]+\s*=""", re.IGNORECASE),
    "hx-on": re.compile(r"\b(data-)?hx-on\b", re.IGNORECASE),
    "a js: or javascript: value": re.compile(r"""["']\s*(js|javascript):""", re.IGNORECASE),
    "a trigger filter": re.compile(r"""hx-trigger\s*=\s*"[^"]*\["""),
    "an unescaped value": re.compile(r"\|\s*safe\b|{%\s*autoescape\s+off"),
}


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_template_holds_nothing_that_the_policy_forbids(path: Path) -> None:
    text = COMMENT.sub("", path.read_text(encoding="utf-8"))
    found = [name for name, pattern in FORBIDDEN.items() if pattern.search(text)]
    assert not found


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_link_that_htmx_follows_works_without_it(path: Path) -> None:
    text = COMMENT.sub("", path.read_text(encoding="utf-8"))
    links = re.findall(r"<a\b[^>]*\shx-get=[^>]*>", text)
    assert [link for link in links if " href=" not in link] == []


def test_the_law_sees_each_thing_it_forbids() -> None:
    samples = {
        "an inline style": '<p style="x">',
        "an inline script": "<script>x</script>",
        "an inline handler": '<p onclick="x">',
        "hx-on": '<p hx-on:click="x">',
        "a js: or javascript: value": """<p hx-vals='js:{}'>""",
        "a trigger filter": '<p hx-trigger="click[ctrlKey]">',
        "an unescaped value": "{{ x|safe }}",
    }
    assert all(FORBIDDEN[name].search(sample) for name, sample in samples.items())
    assert set(samples) == set(FORBIDDEN)
