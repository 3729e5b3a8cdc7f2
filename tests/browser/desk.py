"""What the tests of forms do again and again: open a path in a tab, press a button, count what came of it."""

from __future__ import annotations

from playwright.sync_api import Page

from tests.browser.crawl import settled
from tests.support.stack import Stack


def opened(stack: Stack, page: Page, path: str) -> Page:
    """The path in that tab, with its fragments."""
    page.goto(stack.console_url + path)
    settled(page)
    return page


def another_tab(stack: Stack, page: Page, path: str) -> Page:
    return opened(stack, page.context.new_page(), path)


def submit(page: Page, name: str) -> None:
    page.get_by_role("button", name=name).last.click()


def names_of(stack: Stack, table: str, name: str) -> int:
    query = f"select count(*) as n from {table} where name = %s"
    return int(stack.rows(query, name)[0]["n"])
