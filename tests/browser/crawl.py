"""Every page that a person can reach by links, each kind once: a page that is added later is found by itself."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from urllib.parse import parse_qs, urlsplit

from django.urls import Resolver404, URLPattern, URLResolver, get_resolver, resolve
from playwright.sync_api import Page

_LINKS = "() => [...document.querySelectorAll('a[href]')].map(a => a.href)"
_FILLED = "() => !document.querySelector('.skel, .htmx-request')"
Kind = tuple[str, ...]


def pages_from(
    page: Page, starts: Sequence[str], passed: Collection[str]
) -> Iterator[tuple[str, str]]:
    """Opens each kind of page and gives its path and the name of its view; the caller may look at it meanwhile.

    The crawl does not leave the console. Views named in `passed` are not opened.
    """
    waiting, seen = list(starts), {_kind(start) for start in starts}
    while waiting:
        address = waiting.pop(0)
        page.goto(address)
        settled(page)
        for link in page.evaluate(_LINKS):
            found = link.partition("#")[0]
            kind = _kind(found)
            strange = not kind or kind[0] in passed
            if (
                not strange
                and kind not in seen
                and urlsplit(found).netloc == urlsplit(starts[0]).netloc
            ):
                seen.add(kind)
                waiting.append(found)
        parts = urlsplit(address)
        yield (
            f"{parts.path}?{parts.query}" if parts.query else parts.path,
            next(iter(_kind(address)), ""),
        )


def settled(page: Page) -> None:
    """The fragments that the page asked for by itself have come."""
    page.wait_for_function(_FILLED)


def _kind(address: str) -> Kind:
    """Each skill once and each kind of scope once; one tenant looks like the next."""
    parts = urlsplit(address)
    try:
        match = resolve(parts.path)
    except Resolver404:
        return ()
    if match.view_name != "studio:skill":
        return (match.view_name, match.kwargs.get("section", ""))
    kind, _, name = parse_qs(parts.query).get("scope", ["global"])[0].partition("/")
    return (match.view_name, match.kwargs["slug"] if kind == "global" else f"{kind}/{bool(name)}")


def view_names() -> set[str]:
    """Of the console's own addresses; the management API has names of its own."""
    return set(_names(get_resolver().url_patterns, ""))


def _names(patterns: list[URLPattern | URLResolver], space: str) -> Iterator[str]:
    for each in patterns:
        if isinstance(each, URLResolver):
            if str(each.pattern) != "api/":
                yield from _names(each.url_patterns, f"{each.namespace}:" if each.namespace else "")
        elif each.name:
            yield space + each.name
