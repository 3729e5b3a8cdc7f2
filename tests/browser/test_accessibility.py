"""Everybody gets in: axe on every page in both schemes, and no page that a phone must scroll sideways."""

from __future__ import annotations

import re
from collections.abc import Collection

import pytest
from playwright.sync_api import Page, expect

from tests.browser.axe import grave_violations
from tests.browser.conftest import OpenContext
from tests.browser.crawl import pages_from, view_names
from tests.browser.furnishing import NARROW, WIDE, sideways
from tests.browser.people import make_user, signed_in
from tests.support.stack import Stack

pytestmark = [pytest.mark.browser, pytest.mark.enable_socket, pytest.mark.timeout(240)]

NO_PAGES = {
    "accounts:sign-out": "a post",
    "accounts:theme": "a post",
    "providers:line": "a fragment",
    "providers:price": "a post",
    "providers:test": "a post",
    "providers:test-saved": "a post",
    "shell:policy-chip": "a fragment",
    "spend:export": "a file",
    "studio:check": "a post",
    "studio:workers": "a fragment",
    "studio:yaml": "a post",
    "tenants:fence": "a post",
}
"""Addresses that answer no page of their own."""
OUTSIDE = {"accounts:sign-in", "accounts:set-up"}
"""Pages for those who are not signed in; they are looked at on their own."""

FULL_ANYWAY = {"docs:page", "studio:skill", "studio:home", "accounts:account"}
"""Pages that an empty installation shows as a full one does."""


def judge(page: Page, place: str) -> list[str]:
    """What is wrong with the page as it is now, in both schemes and on a phone."""
    wrong = []
    page.emulate_media(color_scheme="light", reduced_motion="reduce")
    wrong += [f"{place}: {each}" for each in grave_violations(page)]
    page.emulate_media(color_scheme="dark", reduced_motion="reduce")
    wrong += [f"{place}, dark: {each}" for each in grave_violations(page, only_colours=True)]
    for size in (NARROW, WIDE):
        page.set_viewport_size(size)
        if words := sideways(page):
            wrong.append(f"{place} at {size['width']} px: {words}")
    return wrong


def judge_all(
    page: Page, base: str, *starts: str, passed: Collection[str] = ()
) -> tuple[list[str], set[str]]:
    """Of every page behind the starts: what is wrong, and the names of the views that were seen."""
    wrong, seen = [], set()
    for place, view in pages_from(page, [base + start for start in starts], {*NO_PAGES, *passed}):
        seen.add(view)
        wrong += judge(page, place)
    return wrong, seen


# --------------------------------------------------------------------------------------------- pages


def test_every_page_of_an_admin(stack: Stack, open_context: OpenContext) -> None:
    page = signed_in(stack, open_context(viewport=WIDE), "ada")
    asleep = stack.rows("select id from tenants_tenant where state = 'suspended'")[0]["id"]
    discard = "/studio/skills/geo_residency/discard/"
    starts = (discard, f"/tenants/{asleep}/resume/", "/versions/1/", "/docs/errors/budget_exceeded")
    wrong, seen = judge_all(page, stack.console_url, "/", *starts)
    assert not wrong, "\n".join(wrong)
    assert view_names() - seen - NO_PAGES.keys() == OUTSIDE


@pytest.mark.parametrize("name", ["finn", "dora"])
def test_every_page_of_finance_and_developers(
    stack: Stack, open_context: OpenContext, name: str
) -> None:
    page = signed_in(stack, open_context(viewport=WIDE, expected=(403, 404)), name)
    wrong, _ = judge_all(page, stack.console_url, "/", "/providers/", "/nothing-here/")
    assert not wrong, "\n".join(wrong)


def test_an_empty_installation_from_its_first_page_on(open_context: OpenContext) -> None:
    """Nothing is there yet: no tenant, no key, no request, not even somebody who could sign in."""
    with Stack() as bare:
        context = open_context(viewport=WIDE, expected=(422,))
        page = context.new_page()
        page.goto(bare.console_url)
        expect(page).to_have_url(re.compile("/set-up/"))
        wrong = judge(page, "set-up")
        page.get_by_role("button", name="Create admin and sign in").click()
        expect(page.get_by_role("alert")).to_be_visible()
        wrong += judge(page, "set-up, refused")
        make_user(bare, "ada", "admin")
        page.goto(bare.console_url)
        wrong += judge(page, "sign-in")
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("alert")).to_be_visible()
        wrong += judge(page, "sign-in, refused")
        page = signed_in(bare, context, "ada")
        found, _ = judge_all(page, bare.console_url, "/", passed=FULL_ANYWAY)
        context.close()  # before its server goes
    assert not wrong + found, "\n".join(wrong + found)


def test_what_opens_over_a_page(stack: Stack, open_context: OpenContext) -> None:
    """Drawers, dialogs, menus, a refused form, a revealed key."""
    page = signed_in(stack, open_context(viewport=WIDE, expected=(422,)), "ada")
    wrong = []
    page.goto(stack.console_url + "/keys/")
    page.get_by_role("link", name="Create key").click()
    expect(page.get_by_role("dialog")).to_be_visible()
    wrong += judge(page, "new key")
    page.get_by_role("button", name="Create key").click()
    expect(page.get_by_role("alert")).to_be_visible()
    wrong += judge(page, "new key, refused")
    page.locator("[name=tenant]").select_option(label="Kestrel Labs")
    page.locator("[name=name]").fill("shown once")
    page.get_by_role("button", name="Create key").click()
    expect(page.locator("#secret")).to_be_visible()
    wrong += judge(page, "revealed key")
    page.get_by_label("I have stored the key in a safe place").check()
    page.get_by_role("button", name="Done").click()
    page.get_by_role("link", name="Revoke").click()
    expect(page.get_by_role("dialog")).to_be_visible()
    wrong += judge(page, "revoke")
    page.keyboard.press("Escape")
    for menu in ("Theme: follow the system", "account of ada"):
        page.get_by_role("button", name=menu).click()
        wrong += judge(page, menu)
        page.keyboard.press("Escape")
    assert not wrong, "\n".join(wrong)
