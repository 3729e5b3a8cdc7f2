"""A session that ended and a network that is slow: nobody is left before a page that says nothing, or sends twice."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, StorageState, expect

from tests.browser.conftest import OpenContext
from tests.browser.desk import names_of, opened, submit
from tests.browser.furnishing import MODEL, WIDE
from tests.browser.people import sign_in_here, signed_in
from tests.support.stack import Stack

pytestmark = [pytest.mark.browser, pytest.mark.enable_socket, pytest.mark.timeout(120)]

SLOW_MS = 1_500
SKILL = "/studio/skills/circuit_breaker/"


# ------------------------------------------------------------------------------------ the session ends


def test_a_form_after_the_session_ended_leads_to_sign_in_and_back(stack: Stack, ada: Page) -> None:
    page = opened(stack, ada, "/tenants/")
    page.get_by_role("link", name="Create tenant").click()
    page.locator("[name=name]").fill("Too late")
    _end_session(page)
    submit(page, "Create tenant")
    _at_sign_in(page, back="/tenants/")
    sign_in_here(page, "ada")
    expect(page.get_by_role("heading", name="Tenants")).to_be_visible()
    assert names_of(stack, "tenants_tenant", "Too late") == 0


def test_a_list_after_the_session_ended_keeps_its_search(stack: Stack, ada: Page) -> None:
    page = opened(stack, ada, "/keys/?state=active")
    _end_session(page)
    page.locator("#search").fill("bot")
    _at_sign_in(page, back="/keys/?state=active")
    sign_in_here(page, "ada")
    expect(page).to_have_url(re.compile(r"/keys/\?state=active$"))


@pytest.mark.parametrize("button", ["Save draft", "Save YAML"])
def test_a_plain_form_after_the_session_ended_comes_back_to_its_page(
    stack: Stack, ada: Page, button: str
) -> None:
    page = opened(stack, ada, f"{SKILL}?scope=models/no-price-yet")
    _end_session(page)
    submit(page, button)
    expect(page).to_have_url(re.compile("/sign-in/"))
    sign_in_here(page, "ada")
    expect(page).to_have_url(re.compile(r"/studio/skills/circuit_breaker/\?scope=models"))
    expect(page.get_by_role("heading", level=1)).to_be_visible()


def test_nobody_is_thrown_out_of_a_form_by_the_clock(stack: Stack, ada: Page) -> None:
    """The chip asks by itself; that the session has ended is told when the person does something."""
    ada.clock.install()
    page = opened(stack, ada, "/tenants/new/")
    page.locator("[name=name]").fill("Half a na")
    _end_session(page)
    with page.expect_response(lambda answer: "policy-chip" in answer.url):
        page.clock.fast_forward("00:16")
    expect(page.locator("#policy-chip")).to_contain_text("signed out")
    expect(page.locator("[name=name]")).to_have_value("Half a na")


def _end_session(page: Page) -> None:
    page.context.clear_cookies(name=re.compile("ace_session"))


def _at_sign_in(page: Page, back: str) -> None:
    """The whole page, not a piece of it inside another."""
    expect(page).to_have_url(re.compile("/sign-in/"))
    assert parse_qs(urlsplit(page.url).query) == {"next": [back]}
    expect(page.locator("main")).to_have_count(1)
    expect(page.locator("dialog[open]")).to_have_count(0)


def test_a_form_of_an_older_sign_in_says_so_in_its_place(
    stack: Stack, open_context: OpenContext
) -> None:
    """Signing in again in another tab makes the forms of the first one out of date."""
    page = signed_in(stack, open_context(viewport=WIDE, expected=(403,)), "ada")
    opened(stack, page, "/tenants/").get_by_role("link", name="Create tenant").click()
    page.locator("[name=name]").fill("Old token")
    _sign_in_again(stack, page.context)
    submit(page, "Create tenant")
    told = page.get_by_role("dialog").get_by_role("alert")
    expect(told).to_contain_text("This form is out of date")
    expect(page.locator("main")).to_have_count(1)
    expect(page.locator("[name=name]")).to_have_value("Old token")
    page.keyboard.press("Escape")
    expect(page.get_by_text("This form is out of date")).to_have_count(0)


def _sign_in_again(stack: Stack, context: BrowserContext) -> None:
    context.clear_cookies(name=re.compile("ace_session"))
    signed_in(stack, context, "ada").close()


# ---------------------------------------------------------------------------------------- slow network


def slow(page: Page) -> None:
    session = page.context.new_cdp_session(page)
    session.send("Network.enable")
    conditions = {
        "offline": False,
        "latency": SLOW_MS,
        "downloadThroughput": -1,
        "uploadThroughput": -1,
    }
    session.send("Network.emulateNetworkConditions", conditions)


def test_a_slow_answer_shows_that_it_is_awaited_and_takes_no_second_send(
    stack: Stack, ada: Page
) -> None:
    page = opened(stack, ada, "/tenants/")
    page.get_by_role("link", name="Create tenant").click()
    page.locator("[name=name]").fill("Slowly made")
    slow(page)
    button = page.get_by_role("button", name="Create tenant")
    button.click()
    expect(button).to_have_attribute("aria-busy", "true", timeout=500)
    expect(button).to_be_disabled(timeout=500)
    page.locator("[name=name]").press("Enter")
    expect(page.get_by_role("heading", name="Slowly made")).to_be_visible()
    assert names_of(stack, "tenants_tenant", "Slowly made") == 1


def test_a_slow_plain_form_is_sent_once(stack: Stack, ada: Page) -> None:
    page = opened(stack, ada, f"{SKILL}?scope=models/{MODEL}")
    sent: list[str] = []
    page.on(
        "request", lambda request: sent.append(request.url) if request.method == "POST" else None
    )
    slow(page)
    button = page.get_by_role("button", name="Save draft").last
    button.click(no_wait_after=True)
    assert (
        page.evaluate("document.querySelector('#skill-form button[type=submit]').ariaBusy")
        == "true"
    )
    page.keyboard.press("Enter")
    expect(page.locator("#toasts")).to_contain_text("Draft saved")
    assert len([url for url in sent if "/check/" not in url]) == 1


def test_a_list_that_loads_slowly_says_so(stack: Stack, ada: Page) -> None:
    page = opened(stack, ada, "/keys/")
    slow(page)
    page.locator("#search").fill("support")
    expect(page.locator("#list")).to_have_attribute("aria-busy", "true", timeout=1_000)
    expect(page.get_by_role("row", name=re.compile("old bot"))).to_have_count(0)
    expect(page.locator("#list")).not_to_have_attribute("aria-busy", "true")


def test_no_answer_at_all_is_said_and_the_form_stays(
    stack: Stack, browser: Browser, session: StorageState
) -> None:
    context = browser.new_context(storage_state=session)  # not watched: Chromium complains of it
    page = opened(stack, context.new_page(), "/tenants/")
    page.get_by_role("link", name="Create tenant").click()
    page.locator("[name=name]").fill("Into the void")
    page.route("**/tenants/new/", lambda route: route.abort())
    submit(page, "Create tenant")
    told = page.get_by_role("dialog").get_by_role("alert")
    expect(told).to_contain_text("The console did not answer")
    expect(page.locator("[name=name]")).to_have_value("Into the void")
    button = page.get_by_role("button", name="Create tenant")
    expect(button).to_be_enabled()
    expect(button).not_to_have_attribute("aria-busy", "true")
    context.close()
