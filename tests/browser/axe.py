"""axe-core on a page: the violations that keep somebody out, in words that lead to the place."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from playwright.sync_api import Page

SOURCE = Path(__file__).parent / "vendor" / "axe-core" / "axe.min.js"
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
COLOURS = ["color-contrast", "link-in-text-block"]
GRAVE = ("serious", "critical")
_RUN = """only => axe.run(document, {runOnly: only, resultTypes: ["violations"], preload: false})
  .then(found => found.violations)"""


@cache
def _source() -> str:
    return SOURCE.read_text(encoding="utf-8")


def grave_violations(page: Page, only_colours: bool = False) -> list[str]:
    """Of WCAG 2 A and AA, as the page is now: scheme, width and what is open. Works under a strict CSP.

    `only_colours`: for a second scheme of a page that was looked at; nothing else differs.
    """
    if not page.evaluate("'axe' in window"):
        page.evaluate(_source())
    only = {"type": "rule", "values": COLOURS} if only_colours else {"type": "tag", "values": TAGS}
    found: list[dict[str, Any]] = page.evaluate(_RUN, only)
    return [_words(each) for each in found if each["impact"] in GRAVE]


def _words(violation: dict[str, Any]) -> str:
    nodes = [f"{node['html'][:160]} ({_reason(node)})" for node in violation["nodes"][:3]]
    return f"{violation['id']} x{len(violation['nodes'])}: " + " | ".join(nodes)


def _reason(node: dict[str, Any]) -> str:
    checks = [*node["any"], *node["all"], *node["none"]]
    return checks[0]["message"] if checks else ""
