"""A real Chromium on the console of a real installation. Whatever a page complains about fails the test."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    Page,
    Response,
    StorageState,
    sync_playwright,
)

from tests.browser.furnishing import WIDE, furnished
from tests.browser.people import signed_in
from tests.support.stack import Stack

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
    """What pages reported: script errors, violations of the content policy, answers nobody expected."""

    def watch(self, page: Page, expected: Collection[int]) -> None:
        page.on("pageerror", lambda error: self.append(f"{page.url}: {error}"))
        page.on("console", lambda message: self._note(page, message.type, message.text))
        page.on("response", lambda answer: self._judge(answer, expected))

    def _note(self, page: Page, kind: str, text: str) -> None:
        # What Chromium says of a status is judged by the status.
        if kind in ("error", "warning") and "the server responded with a status" not in text:
            self.append(f"{page.url}: {text}")

    def _judge(self, answer: Response, expected: Collection[int]) -> None:
        if answer.status >= 400 and answer.status not in expected:
            self.append(f"{answer.status} {answer.url}")


@pytest.fixture
def open_context(browser: Browser) -> Iterator[OpenContext]:
    """Opens independent sessions of the browser; at the end no page of theirs may have complained.

    `expected`: statuses from 400 up that the test means to see.
    """
    complaints = Complaints()
    with ExitStack() as stack:

        def opened(expected: Collection[int] = (), **options: object) -> BrowserContext:
            context = browser.new_context(**options)  # type: ignore[arg-type]
            context.set_default_timeout(WAIT_MS)
            context.on("page", lambda page: complaints.watch(page, expected))
            stack.callback(context.close)
            return context

        yield opened
    assert not complaints


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """An installation with people, names and traffic of every kind; shared, so a test makes what it changes."""
    with furnished(tmp_path_factory.mktemp("installation")) as running:
        yield running


@pytest.fixture(scope="module")
def session(stack: Stack, browser: Browser) -> StorageState:
    """Cookies of one sign-in for the tests that begin behind it: a password is slow to check."""
    with browser.new_context() as context:
        signed_in(stack, context, "ada")
        return context.storage_state()


@pytest.fixture
def ada(session: StorageState, open_context: OpenContext) -> Page:
    """The admin's tab. Forms may be refused (409, 422)."""
    context = open_context(viewport=WIDE, expected=(409, 422), storage_state=session)
    return context.new_page()
