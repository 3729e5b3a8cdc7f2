"""The people of the browser tests, and how they get in."""

from __future__ import annotations

import re

from playwright.sync_api import BrowserContext, Page, expect

from tests.support.stack import Stack

PASSWORD = "a long enough passphrase 42"


def make_user(stack: Stack, name: str, role: str) -> None:
    """There is no page for this yet; the first admin comes from the set-up page, which the story drives."""
    script = (
        "from console.accounts.models import User; "
        f"User.objects.create_user(username='{name}', password='{PASSWORD}', role='{role}')"
    )
    stack.manage("shell", "-c", script)


def signed_in(stack: Stack, context: BrowserContext, name: str) -> Page:
    page = context.new_page()
    page.goto(stack.console_url + "/sign-in/")
    sign_in_here(page, name)
    return page


def sign_in_here(page: Page, name: str) -> None:
    page.locator("[name=username]").fill(name)
    page.locator("[name=password]").fill(PASSWORD)
    page.keyboard.press("Enter")
    expect(page).not_to_have_url(re.compile("sign-in"))
