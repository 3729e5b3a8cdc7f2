"""The main job, end to end: an admin sets up and publishes, an application is answered, finance sees what it cost."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from openai import OpenAI
from openai.types import CompletionUsage
from playwright.sync_api import Page, expect

from tests.browser.conftest import OpenContext
from tests.browser.people import PASSWORD, make_user, signed_in
from tests.support.stack import Stack
from tests.support.waiting import until

pytestmark = [pytest.mark.browser, pytest.mark.enable_socket, pytest.mark.timeout(240)]

MODEL = "smollm2-135m-instruct"
INPUT_PRICE, OUTPUT_PRICE = 500_000, 1_500_000
"""Micro-dollars for a million tokens, as typed into the form."""


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    processes = ("console", "gateway", "ingest", "agent", "pod")
    with Stack(workers=2, processes=processes) as running:
        yield running


@dataclass
class Admin:
    """What a person does, by what is written on the page."""

    page: Page
    base: str

    def open(self, path: str) -> None:
        self.page.goto(self.base + path)

    def click(self, text: str) -> None:
        self.page.get_by_role("link", name=text).or_(
            self.page.get_by_role("button", name=text)
        ).first.click()

    def fill(self, **values: str) -> None:
        for name, value in values.items():
            self.page.locator(f"[name={name}]").first.fill(value)

    def submit(self, form: str = "main form") -> None:
        self.page.locator(f"{form} button[type=submit]").last.click()


def test_from_first_run_to_the_spend_page(stack: Stack, open_context: OpenContext) -> None:
    context = open_context(viewport={"width": 1280, "height": 900})
    admin = Admin(context.new_page(), stack.console_url)
    _first_run(admin, stack.manage("setup_token").strip())
    _make_pool(admin, stack.pod_url)
    _make_tenant(admin)
    _fence(admin)
    key = _make_key(admin)
    _set_skill_and_publish(admin)
    stack.settle()

    live = context.new_page()
    live.goto(stack.console_url + "/live/")
    loaded = live.evaluate("performance.timeOrigin")
    expect(live.locator("#live-requests")).not_to_contain_text(MODEL)

    text, usage = _ask(stack.client(key))
    assert text.strip()
    cost = _cost(usage)
    _key_is_gone(admin, key)

    expect(live.locator("#live-requests")).to_contain_text(MODEL)
    assert live.evaluate("performance.timeOrigin") == loaded, "the live page was reloaded"

    [row] = stack.wait_ledger(1)
    assert row["billed_microusd"] == cost
    assert (row["input_tokens"], row["output_tokens"]) == (
        usage.prompt_tokens,
        usage.completion_tokens,
    )
    _finance_sees(stack, open_context, cost)


def _first_run(admin: Admin, token: str) -> None:
    admin.open("/")
    expect(admin.page).to_have_url(re.compile("/set-up/"))
    admin.fill(token=token, username="ada", password=PASSWORD, password_again=PASSWORD)
    admin.click("Create admin and sign in")
    expect(admin.page.get_by_role("heading", name="Overview")).to_be_visible()


def _make_pool(admin: Admin, pod_url: str) -> None:
    admin.open("/providers/new/")
    admin.page.locator("[name=engine]").select_option("openai")
    admin.fill(model=MODEL, name="Local pod", base_url=pod_url, region="local")
    admin.fill(input_price="0.50", output_price="1.50")
    admin.click("Test endpoints")
    expect(admin.page.locator("#test")).to_contain_text("token", timeout=30_000)
    admin.submit("#pool-form")
    expect(admin.page.get_by_role("heading", name="Local pod")).to_be_visible()


def _make_tenant(admin: Admin) -> None:
    admin.open("/tenants/new/")
    admin.fill(name="Kestrel Labs")
    admin.submit()
    expect(admin.page.get_by_role("heading", name="Kestrel Labs")).to_be_visible()


def _fence(admin: Admin) -> None:
    admin.page.get_by_text("Only in these regions").click()
    admin.page.locator("#fence").get_by_text("local (1)").click()
    admin.click("Save fence")
    expect(admin.page.locator("#fence")).to_contain_text("Fence saved")


def _make_key(admin: Admin) -> str:
    admin.open("/keys/new/")
    admin.page.locator("[name=tenant]").select_option(label="Kestrel Labs")
    admin.fill(name="support bot", budget_limit="1.00")
    admin.submit()
    secret = admin.page.locator("#secret")
    expect(secret).to_contain_text("ace_live_")
    return secret.inner_text()


def _key_is_gone(admin: Admin, key: str) -> None:
    """It was shown once."""
    admin.open("/keys/")
    admin.page.get_by_role("link", name="support bot").first.click()
    expect(admin.page.get_by_role("heading", name="support bot")).to_be_visible()
    assert key not in admin.page.content()
    assert key[-4:] in admin.page.content()


def _set_skill_and_publish(admin: Admin) -> None:
    admin.open("/studio/skills/circuit_breaker/")
    mode = admin.page.locator("#field-mode")
    mode.get_by_text("Set here").click()
    mode.get_by_text("Enforce", exact=True).click()
    admin.click("Save draft")
    expect(admin.page.locator("#toasts")).to_contain_text("Draft saved")
    admin.open("/studio/review/")
    admin.fill(note="Stop sending to a pod that fails")
    admin.submit("form.panel")
    expect(admin.page.get_by_text("All 2 workers run version")).to_be_visible()
    expect(admin.page.get_by_text("Acknowledged", exact=True)).to_have_count(2)


def _ask(client: OpenAI) -> tuple[str, CompletionUsage]:
    """The streamed text and what the gateway says was used."""
    text, usage = "", None
    question = "Name one river."
    for chunk in client.chat.completions.create(
        model=MODEL,
        messages=[{"role": "user", "content": question}],
        stream=True,
        stream_options={"include_usage": True},
        max_tokens=24,
    ):
        usage = chunk.usage or usage
        text += (chunk.choices[0].delta.content or "") if chunk.choices else ""
    assert usage is not None
    return text, usage


def _cost(usage: CompletionUsage) -> int:
    units = usage.prompt_tokens * INPUT_PRICE + usage.completion_tokens * OUTPUT_PRICE
    return -(-units // 1_000_000)


def _finance_sees(stack: Stack, open_context: OpenContext, cost: int) -> None:
    """Someone who may only read spend sees the same figure, and neither keys nor policies."""
    make_user(stack, "finn", "finance")
    page = signed_in(stack, open_context(color_scheme="dark", expected=(403,)), "finn")

    def shown() -> bool:
        page.goto(stack.console_url + "/spend/")
        return page.get_by_text(f"{cost} micro-dollars").count() == 1

    until(shown, within_s=20, what="the spend page shows the ledger's figure", every_s=0.5)
    for path in ("/keys/", "/studio/", "/providers/"):
        answer = page.goto(stack.console_url + path)
        assert answer is not None
        assert answer.status == 403
        expect(page.get_by_role("main")).to_contain_text("You may not open this page")
