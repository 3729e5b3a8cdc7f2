"""A real Chromium on the console of a real installation. Whatever a page complains about fails the test."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
OPTIONS = [
    "--no-sandbox",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-proxy-server",
]
WAIT_MS = 15_000

OpenContext = Callable[..., BrowserContext]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if program() is None:
        missing = pytest.mark.skip(reason="Chromium is not installed (Debian: chromium)")
        for item in items:
            if item.get_closest_marker("browser"):
                item.add_marker(missing)


def program() -> str | None:
    return next((path for name in PROGRAMS if (path := shutil.which(name))), None)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=program(), args=OPTIONS)
        yield chromium
        chromium.close()


class Complaints(list[str]):
    """What pages reported: script errors, refused resources, violations of the content policy."""

    def watch(self, page: Page) -> None:
        page.on("pageerror", lambda error: self.append(f"{page.url}: {error}"))
        page.on("console", lambda message: self._note(page, message.type, message.text))

    def _note(self, page: Page, kind: str, text: str) -> None:
        # A refused form or a missing page is an answer, and tests ask for some on purpose.
        expected = "status of 4" in text
        if kind in ("error", "warning") and not expected:
            self.append(f"{page.url}: {text}")


@pytest.fixture
def open_context(browser: Browser) -> Iterator[OpenContext]:
    """Opens independent sessions of the browser; at the end no page of theirs may have complained."""
    complaints = Complaints()
    with ExitStack() as stack:

        def opened(**options: object) -> BrowserContext:
            context = browser.new_context(**options)  # type: ignore[arg-type]
            context.set_default_timeout(WAIT_MS)
            context.on("page", complaints.watch)
            stack.callback(context.close)
            return context

        yield opened
    assert not complaints
