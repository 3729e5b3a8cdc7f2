"""The live page tells what a host's GPUs say: each what it supports, none of them zeros that nobody measured."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import OpenContext
from tests.browser.people import make_user, signed_in
from tests.fakes.nvml import EVENT_XID, NvmlStub
from tests.support.stack import Stack

pytestmark = [pytest.mark.browser, pytest.mark.enable_socket, pytest.mark.timeout(120)]


@contextmanager
def live_page(open_context: OpenContext, env: dict[str, str]) -> Iterator[Page]:
    processes = ("console", "gateway", "ingest", "agent")
    with Stack(workers=1, processes=processes, env=env) as stack:
        make_user(stack, "ada", "admin")
        page = signed_in(stack, open_context(), "ada")
        page.goto(stack.console_url + "/live/")
        try:
            yield page
        finally:
            page.context.close()  # before its server goes


def test_two_gpus_show_what_each_supports(tmp_path: Path, open_context: OpenContext) -> None:
    stub = NvmlStub(tmp_path)
    stub.unset(1, "util.gpu")
    with live_page(open_context, stub.environment) as page:
        gpus = page.locator("#live-gpus")
        able = gpus.get_by_role("row").filter(has_text="NVIDIA H200")
        old = gpus.get_by_role("row").filter(has_text="Tesla T4")
        expect(able).to_contain_text("87 %")
        expect(able).to_contain_text("523 W")
        expect(able).to_contain_text("61 °C")
        expect(old).to_contain_text("44 °C")
        expect(old).to_contain_text("Not supported:")
        used = old.get_by_role("cell").nth(1)
        expect(used).not_to_contain_text("0 %")
        expect(used).to_contain_text("not supported")
        loaded = page.evaluate("performance.timeOrigin")
        stub.set(0, temp=73)
        stub.raise_event(0, EVENT_XID, 79)
        expect(able).to_contain_text("73 °C")
        expect(able).to_contain_text("79")
        assert page.evaluate("performance.timeOrigin") == loaded


def test_a_host_without_a_driver_says_so(open_context: OpenContext) -> None:
    with live_page(open_context, {}) as page:
        gpus = page.locator("#live-gpus")
        expect(gpus).to_contain_text("No NVIDIA driver")
        expect(gpus.get_by_role("table")).to_have_count(0)
        expect(gpus).not_to_contain_text("0 %")
