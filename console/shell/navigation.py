"""The sidebar. Read from the same permission table as the views, so that no link leads to a refusal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse

from console.accounts.permissions import can


@dataclass(frozen=True, slots=True)
class Entry:
    title: str
    icon: str
    url_name: str
    action: str
    """Permission without which the entry is not shown."""


@dataclass(frozen=True, slots=True)
class Link:
    title: str
    icon: str
    url: str
    current: bool


@dataclass(frozen=True, slots=True)
class Group:
    title: str
    links: tuple[Link, ...]


ENTRIES: tuple[tuple[str, tuple[Entry, ...]], ...] = (
    (
        "Operate",
        (
            Entry("Overview", "overview", "overview:home", "overview.read"),
            Entry("Live", "live", "fleet:live", "live.read"),
            Entry("Requests", "requests", "requests:list", "requests.read"),
        ),
    ),
    (
        "Policies",
        (
            Entry("Studio", "studio", "studio:home", "policies.read"),
            Entry("Versions", "versions", "studio:versions", "policies.read"),
        ),
    ),
    (
        "Access",
        (
            Entry("Tenants", "tenant", "tenants:list", "tenants.read"),
            Entry("Keys", "key", "keys:list", "keys.read"),
            Entry("Providers and models", "plug", "providers:list", "pools.read"),
        ),
    ),
    (
        "Spend",
        (
            Entry("Spend", "spend", "spend:home", "usage.read"),
            Entry("Budgets", "budget", "budgets:list", "budgets.read"),
        ),
    ),
    ("Help", (Entry("Docs", "report", "docs:home", "docs.read"),)),
)


def groups_for(request: HttpRequest) -> list[Group]:
    """The groups this person may open, with the link of the page they are on marked."""
    groups = [Group(title, tuple(_links(request, entries))) for title, entries in ENTRIES]
    return [group for group in groups if group.links]


def _links(request: HttpRequest, entries: tuple[Entry, ...]) -> Iterator[Link]:
    for entry in entries:
        if not can(request, entry.action):
            continue
        try:
            url = reverse(entry.url_name)
        except NoReverseMatch:
            continue  # the page's app is not part of this installation
        current = request.path == url or (url != "/" and request.path.startswith(url))
        yield Link(entry.title, entry.icon, url, current)
