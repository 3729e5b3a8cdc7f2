"""The console without a pointer: everything is reached, the focus is always in sight, and no answer takes it away."""

from __future__ import annotations

import re
from typing import Literal

import pytest
from playwright.sync_api import Locator, Page, StorageState, expect

from tests.browser.conftest import OpenContext
from tests.browser.crawl import settled
from tests.browser.desk import names_of
from tests.browser.furnishing import MODEL, NARROW, WIDE
from tests.browser.people import PASSWORD
from tests.support.stack import Stack

pytestmark = [pytest.mark.browser, pytest.mark.enable_socket, pytest.mark.timeout(120)]

FOCUSED = """() => {
  const element = document.activeElement;
  if (!element || element === document.body) return "nothing";
  const ringed = each => {
    const style = getComputedStyle(each);
    return (style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0) || style.boxShadow !== "none";
  };
  const name = `${element.tagName} ${(element.ariaLabel || element.textContent || element.name).trim().slice(0, 40)}`;
  const shown = element.matches("[type=radio]") ? element.closest("label") : element;
  const box = shown.getBoundingClientRect();
  const inside = box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth;
  if (!inside || box.width < 1 || box.height < 1) return `${name} is out of sight`;
  const within = (place, end) => Math.min(Math.max(place, 1), end - 1);
  const top = document.elementFromPoint(
    within(box.left + Math.min(box.width / 2, 8), innerWidth), within(box.top + 4, innerHeight));
  if (top && !shown.contains(top) && !top.contains(shown)) return `${name} is covered by ${top.outerHTML.slice(0, 80)}`;
  return ringed(element) || ringed(shown) ? "" : `${name} shows no focus`;
}"""
"""What is wrong with where the focus is; empty when a person can see it."""


KINDS: tuple[Literal["link"], Literal["button"]] = ("link", "button")


MOST_STEPS = 300


class Keys:
    """Somebody without a pointer. After each key the focus must be somewhere, in sight and marked."""

    def __init__(self, page: Page) -> None:
        self.page = page

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)
            self.sees_focus(f"after {key}")

    def tab_to(self, target: Locator, most: int = 60) -> None:
        for _ in range(most):
            if target.evaluate("each => each === document.activeElement"):
                return
            self.press("Tab")
        raise AssertionError(f"{target} is not reached within {most} steps")

    def sees_focus(self, when: str) -> None:
        wrong = self.page.evaluate(FOCUSED)
        assert not wrong, f"{self.page.url} {when}: {wrong}"


@pytest.fixture
def keys(stack: Stack, open_context: OpenContext, session: StorageState) -> Keys:
    page = open_context(viewport=WIDE, expected=(422,), storage_state=session).new_page()
    page.goto(stack.console_url)
    return Keys(page)


def test_a_tenant_is_made_without_a_pointer(stack: Stack, open_context: OpenContext) -> None:
    page = open_context(viewport=WIDE, expected=(422,)).new_page()
    page.goto(stack.console_url + "/sign-in/")
    keys = Keys(page)
    keys.tab_to(page.locator("[name=username]"), most=8)
    page.keyboard.type("ada")
    keys.press("Tab")
    page.keyboard.type(PASSWORD)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    keys.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#main")).to_be_focused()
    page.reload()
    keys.tab_to(page.get_by_role("link", name="Tenants", exact=True))
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Tenants")).to_be_visible()

    opener = page.get_by_role("link", name="Create tenant")
    keys.tab_to(opener)
    page.keyboard.press("Enter")
    drawer = page.get_by_role("dialog", name="Create tenant")
    expect(drawer.locator("[name=name]")).to_be_focused()
    keys.sees_focus("in the drawer")
    keys.press("Escape")
    expect(drawer).to_be_hidden()
    expect(opener).to_be_focused()

    page.keyboard.press("Enter")
    expect(drawer.locator("[name=name]")).to_be_focused()
    page.keyboard.press("Enter")
    expect(drawer.get_by_role("alert")).to_be_focused()
    keys.press("Tab")
    expect(drawer.get_by_role("link", name=re.compile("^Name:"))).to_be_focused()
    keys.press("Enter")
    expect(drawer.locator("[name=name]")).to_be_focused()
    page.keyboard.type("Typed Ltd")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Typed Ltd")).to_be_visible()
    assert names_of(stack, "tenants_tenant", "Typed Ltd") == 1


def test_menus_open_and_close_without_a_pointer(keys: Keys) -> None:
    page = keys.page
    for name, inside in (("account of ada", "Account"), ("Theme: follow the system", "Dark")):
        opener = page.get_by_role("button", name=name)
        keys.tab_to(opener)
        keys.press("Enter", "Tab")
        links, buttons = (page.get_by_role(kind, name=inside, exact=True) for kind in KINDS)
        item = links.or_(buttons)
        keys.tab_to(item, most=4)
        keys.press("Escape")
        expect(item).to_be_hidden()
        expect(opener).to_be_focused()
        page.reload()


def test_the_navigation_of_a_phone_opens_and_closes_without_a_pointer(keys: Keys) -> None:
    page = keys.page
    page.set_viewport_size(NARROW)
    page.reload()
    opener = page.get_by_role("button", name="Open navigation")
    keys.tab_to(opener)
    page.keyboard.press("Enter")
    expect(page.get_by_role("link", name="Overview", exact=True)).to_be_focused()
    keys.sees_focus("in the opened navigation")
    keys.tab_to(page.get_by_role("link", name="Keys", exact=True))
    keys.press("Escape")
    expect(page.get_by_role("link", name="Keys", exact=True)).to_be_hidden()
    expect(opener).to_be_focused()


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/keys/",
        "/requests/",
        "/providers/new/",
        "/studio/skills/geo_residency/",
        "/spend/",
        "/live/",
    ],
)
def test_the_focus_is_seen_on_its_whole_way(stack: Stack, keys: Keys, path: str) -> None:
    """Forwards to the end of the page, and a stretch backwards, where bars that stick could cover it."""
    page = keys.page
    page.goto(stack.console_url + path)
    settled(page)
    for step in range(MOST_STEPS):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement === document.body"):
            break
        keys.sees_focus(f"step {step}")
    else:
        raise AssertionError("the focus does not leave the page")
    assert step > 10
    page.locator("main a, main input, main button, main [tabindex]").last.focus()
    keys.press(*["Shift+Tab"] * 12)


def test_a_refused_page_form_takes_the_focus_to_what_is_wrong(stack: Stack, keys: Keys) -> None:
    page = keys.page
    page.goto(stack.console_url + "/providers/new/")
    page.locator("[name=model]").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_be_focused()
    keys.press("Tab")
    field = page.evaluate("document.activeElement.getAttribute('href')")
    keys.press("Enter")
    expect(page.locator(f"main {field}")).to_be_focused()


# ------------------------------------------------------------------------- fragments keep the focus


def test_typing_in_a_search_is_not_interrupted_by_its_answers(stack: Stack, keys: Keys) -> None:
    page = keys.page
    page.goto(stack.console_url + "/tenants/")
    keys.press("/")
    for part in ("Kes", "trel", " La"):
        with page.expect_response(re.compile("search=")):
            page.keyboard.type(part)
        settled(page)
        expect(page.locator("#search")).to_be_focused()
    expect(page.locator("#search")).to_have_value("Kestrel La")
    expect(page.get_by_role("row")).to_have_count(2)


def test_a_filter_keeps_the_focus_while_its_list_is_replaced(stack: Stack, keys: Keys) -> None:
    page = keys.page
    page.goto(stack.console_url + "/keys/")
    page.get_by_role("radio", name="All").focus()
    for state in ("Active", "Expired", "Revoked"):
        with page.expect_response(re.compile(f"state={state.lower()}")):
            page.keyboard.press("ArrowRight")
        settled(page)
        expect(page.get_by_role("radio", name=state)).to_be_focused()
        keys.sees_focus(state)


def test_a_new_line_of_a_form_and_its_end_keep_the_focus(stack: Stack, keys: Keys) -> None:
    page = keys.page
    page.goto(stack.console_url + "/providers/new/")
    more = page.get_by_role("link", name="Another endpoint")
    more.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_label("Base URL")).to_have_count(2)
    keys.sees_focus("after a line was added")
    page.get_by_role("button", name="Remove this endpoint").last.focus()
    keys.press("Enter")
    expect(page.get_by_label("Base URL")).to_have_count(1)


def test_the_live_page_leaves_the_focus_where_it_is(stack: Stack, keys: Keys) -> None:
    page = keys.page
    key = stack.api.make_key(stack.api.make_tenant("Busy"), "busy").key
    stack.settle()
    page.goto(stack.console_url + "/live/")
    newest = page.locator("#live-requests tbody tr a").first
    newest.focus()
    href = newest.get_attribute("href")
    for number in range(3):
        before = str(newest.get_attribute("href"))
        stack.client(key).chat.completions.create(
            model=MODEL, messages=[{"role": "user", "content": f"Name {number}."}], max_tokens=4
        )
        expect(newest).not_to_have_attribute("href", before)
        assert page.evaluate("document.activeElement.getAttribute('href')") == href
        keys.sees_focus(f"after request {number}")


def test_the_chip_of_the_bar_keeps_the_focus_when_it_is_renewed(stack: Stack, keys: Keys) -> None:
    page = keys.page
    page.clock.install()
    page.reload()
    page.locator("#policy-chip a").focus()
    with page.expect_response(re.compile("policy-chip")):
        page.clock.fast_forward("00:16")
    settled(page)
    expect(page.locator("#policy-chip a")).to_be_focused()


def test_turning_pages_leaves_the_focus_on_the_way_on(stack: Stack, keys: Keys) -> None:
    page = keys.page
    tenant = stack.api.make_tenant("Many keys")
    for number in range(21):
        stack.api.make_key(tenant, f"key {number}")
    page.goto(stack.console_url + "/keys/?rows=10")
    forward = page.get_by_role("link", name="Next")
    forward.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_text(re.compile("^11 to 20 of"))).to_be_visible()
    expect(forward).to_be_focused()
    keys.sees_focus("on the second page")


def test_an_answer_does_not_call_back_a_focus_that_was_given_up(stack: Stack, keys: Keys) -> None:
    """Somebody clicked beside everything; what comes by itself must not pull them back into a field."""
    page = keys.page
    page.clock.install()
    page.goto(stack.console_url + "/tenants/")
    page.locator("#search").fill("Kes")
    page.clock.run_for(300)
    expect(page.get_by_role("row")).to_have_count(2)
    settled(page)
    page.clock.run_for(500)
    page.locator("#search").evaluate("each => each.blur()")
    with page.expect_response(re.compile("policy-chip")):
        page.clock.fast_forward("00:16")
    settled(page)
    assert page.evaluate("document.activeElement === document.body")
