"""What people do that no form expects: two tabs on one thing, two clicks on one button, names of every kind."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.desk import another_tab, names_of, opened, submit
from tests.browser.furnishing import LONG, MODEL, NARROW, ODD_NAMES, WIDE, sideways
from tests.support.stack import Stack

pytestmark = [pytest.mark.browser, pytest.mark.enable_socket, pytest.mark.timeout(120)]

SKILL = "/studio/skills/circuit_breaker/"


# ------------------------------------------------------------------------------------------ two tabs


def test_the_second_rename_of_a_tenant_is_told_and_keeps_what_was_typed(
    stack: Stack, ada: Page
) -> None:
    tenant = stack.api.make_tenant("Renamed twice")
    path = f"/tenants/{tenant}/edit/"
    first, second = opened(stack, ada, path), another_tab(stack, ada, path)
    first.locator("[name=name]").fill("Theirs")
    submit(first, "Save name")
    expect(first.get_by_role("heading", name="Theirs")).to_be_visible()

    second.locator("[name=name]").fill("Mine")
    submit(second, "Save name")
    expect(second.get_by_role("alert")).to_contain_text("Somebody changed this")
    expect(second.get_by_role("alert")).to_contain_text("Stored now: Theirs")
    expect(second.locator("[name=name]")).to_have_value("Mine")
    assert names_of(stack, "tenants_tenant", "Theirs") == 1

    submit(second, "Save name")
    expect(second.get_by_role("heading", name="Mine")).to_be_visible()


def test_a_stale_fence_keeps_its_ticks_and_its_text(stack: Stack, ada: Page) -> None:
    tenant = stack.api.make_tenant("Fenced twice")
    first, second = (
        opened(stack, ada, f"/tenants/{tenant}/"),
        another_tab(stack, ada, f"/tenants/{tenant}/"),
    )
    for page, regions in ((first, "eu-west-1"), (second, "us-east-1, us-east-2")):
        page.get_by_text("Only in these regions").click()
        page.locator("[name=more]").fill(regions)
    second.locator("#fence").get_by_text("local (1)").click()
    submit(first, "Save fence")
    expect(first.locator("#fence")).to_contain_text("Fence saved")

    submit(second, "Save fence")
    expect(second.get_by_role("alert")).to_contain_text("Stored now: eu-west-1")
    expect(second.locator("[name=more]")).to_have_value("us-east-1, us-east-2")
    expect(second.get_by_label("local (1)")).to_be_checked()
    expect(second.get_by_label("Only in these regions")).to_be_checked()


def test_a_stale_key_keeps_every_field(stack: Stack, ada: Page) -> None:
    key = stack.api.make_key(stack.api.make_tenant("Keeper"), "contested").id
    path = f"/keys/{key}/edit/"
    first, second = opened(stack, ada, path), another_tab(stack, ada, path)
    first.locator("[name=requests_per_minute]").fill("10")
    submit(first, "Save key")
    expect(first.get_by_role("heading", name="contested")).to_be_visible()

    second.get_by_text("Only these").click()
    second.get_by_label(MODEL).check()
    second.get_by_label("no-price-yet").check()
    second.locator("[name=requests_per_minute]").fill("20")
    submit(second, "Save key")
    expect(second.get_by_role("alert")).to_contain_text("Stored now: 10")
    expect(second.locator("[name=requests_per_minute]")).to_have_value("20")
    expect(second.get_by_label(MODEL)).to_be_checked()
    expect(second.get_by_label("no-price-yet")).to_be_checked()


def test_two_tabs_on_one_draft(stack: Stack, ada: Page) -> None:
    first, second = opened(stack, ada, SKILL), another_tab(stack, ada, SKILL)
    for page, mode in ((first, "Shadow"), (second, "Observe")):
        page.locator("#field-mode").get_by_text(mode, exact=True).click()
    submit(first, "Save draft")
    expect(first.locator("#toasts")).to_contain_text("Draft saved")

    submit(second, "Save draft")
    told = second.get_by_role("alert").first
    expect(told).to_contain_text("Somebody saved this document while you were editing")
    expect(told).to_be_focused()
    field = second.locator("#field-mode")
    expect(field.get_by_label("Observe")).to_be_checked()
    expect(field).to_contain_text("Saved meanwhile by somebody else: shadow")

    submit(second, "Save draft")
    expect(second.locator("#toasts")).to_contain_text("Draft saved")


def test_two_tabs_on_one_document_as_yaml(stack: Stack, ada: Page) -> None:
    first, second = opened(stack, ada, SKILL), another_tab(stack, ada, SKILL)
    document = "scope: global\nskills:\n  hardware_telemetry:\n    mode: {}\n"
    first.locator("#document").fill(document.format("observe"))
    submit(first, "Save YAML")
    expect(first.locator("#toasts")).to_contain_text("Draft saved")

    second.locator("#document").fill(document.format("shadow") + "# mine\n")
    submit(second, "Save YAML")
    expect(second.get_by_text("Somebody saved this document while you were typing")).to_be_visible()
    expect(second.locator("#document")).to_have_value(document.format("shadow") + "# mine\n")


# ---------------------------------------------------------------------------------------- two clicks


def test_a_double_click_makes_one_tenant(stack: Stack, ada: Page) -> None:
    page = opened(stack, ada, "/tenants/")
    page.get_by_role("link", name="Create tenant").click()
    page.locator("[name=name]").fill("Clicked twice")
    page.get_by_role("button", name="Create tenant").dblclick()
    expect(page.get_by_role("heading", name="Clicked twice")).to_be_visible()
    assert names_of(stack, "tenants_tenant", "Clicked twice") == 1


def test_a_double_click_makes_one_key_and_shows_its_secret(stack: Stack, ada: Page) -> None:
    page = opened(stack, ada, "/keys/new/")
    page.locator("[name=tenant]").select_option(label="Kestrel Labs")
    page.locator("[name=name]").fill("clicked twice")
    page.get_by_role("button", name="Create key").dblclick()
    expect(page.locator("#secret")).to_contain_text("ace_live_")
    assert names_of(stack, "keys_apikey", "clicked twice") == 1


def test_a_double_click_publishes_once(stack: Stack, ada: Page) -> None:
    stack.api.put_policy("models/no-price-yet", {"circuit_breaker": {"mode": "observe"}})
    page = opened(stack, ada, "/studio/review/")
    before = stack.rows("select max(number) as n from studio_policyrevision")[0]["n"]
    page.locator("form.panel button[type=submit]").dblclick()
    expect(page).to_have_url(re.compile(rf"/versions/{before + 1}/$"))
    expect(page.get_by_text(re.compile(r"Version \d+ published"))).to_be_visible()
    assert stack.rows("select max(number) as n from studio_policyrevision")[0]["n"] == before + 1


def test_a_double_click_on_a_draft_is_no_conflict_with_oneself(stack: Stack, ada: Page) -> None:
    page = opened(stack, ada, "/studio/skills/geo_residency/?scope=models/no-price-yet")
    page.locator("#field-mode").get_by_text("Observe", exact=True).click()
    page.get_by_role("button", name="Save draft").last.dblclick()
    expect(page.locator("#toasts")).to_contain_text("Draft saved")
    expect(page.get_by_role("alert")).to_have_count(0)


# ----------------------------------------------------------------------------------------- odd names


def test_odd_names_are_shown_as_they_are_and_break_nothing(stack: Stack, ada: Page) -> None:
    opened(stack, ada, "/tenants/?rows=100")
    links = {
        name: ada.get_by_role("link", name=name, exact=True).get_attribute("href")
        for name in ODD_NAMES
    }
    for path in (
        "/tenants/?rows=100",
        "/keys/?rows=100",
        "/budgets/?rows=100",
        "/spend/",
        "/requests/",
        "/keys/new/",
        "/budgets/new/",
    ):
        opened(stack, ada, path)
        for name in ODD_NAMES:
            assert name in ada.locator("main").inner_text(), f"{name} on {path}"
        _stands(ada, path)
    for name, href in links.items():
        path = str(href)
        opened(stack, ada, path)
        expect(ada.get_by_role("heading", name=name, exact=True)).to_be_visible()
        crumb = ada.get_by_label("Breadcrumb").locator("[aria-current]")
        expect(crumb).to_have_text(name)
        assert crumb.get_attribute("title") == name
        assert ada.title() == f"{name} · ACE Gateway"
        _stands(ada, path)


def test_odd_names_on_the_live_page(stack: Stack, ada: Page) -> None:
    key = stack.api.make_key(stack.api.make_tenant("Just now"), LONG)
    stack.settle()
    opened(stack, ada, "/live/")
    stack.client(key.key).chat.completions.create(
        model=MODEL, messages=[{"role": "user", "content": "Name a sea."}], max_tokens=8
    )
    rows = ada.locator("#live-requests")
    expect(rows).to_contain_text("Just now")
    for name in ODD_NAMES:
        expect(rows).to_contain_text(name)
    _stands(ada, "live")


def _stands(page: Page, place: str) -> None:
    """Neither a desk nor a phone has to scroll sideways, and no name became markup."""
    for size in (WIDE, NARROW):
        page.set_viewport_size(size)
        assert not sideways(page), f"{place} at {size['width']} px: {sideways(page)}"
    page.set_viewport_size(WIDE)
    assert page.locator("main script").count() == 0


def test_a_name_that_is_too_long_or_invisible_is_refused_in_words(stack: Stack, ada: Page) -> None:
    page = opened(stack, ada, "/tenants/new/")
    for name, words in (
        ("x" * 200, "at most 120 characters"),
        ("pay\u202epal", "control or invisible"),
    ):
        page.locator("[name=name]").evaluate("each => each.removeAttribute('maxlength')")
        page.locator("[name=name]").fill(name)
        submit(page, "Create tenant")
        expect(page.get_by_role("alert")).to_contain_text(words)
        expect(page.locator("[name=name]")).to_have_value(name)
        _stands(page, "/tenants/new/")
