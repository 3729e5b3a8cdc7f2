"""An installation that has seen some work, so that no page of the console is tested while it is empty."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import openai
from playwright.sync_api import Page, ViewportSize

from tests.browser.people import PASSWORD
from tests.fakes.engine import EngineOptions, FakeEngineProcess
from tests.fakes.nvml import NvmlStub
from tests.support.stack import Stack
from tests.support.waiting import until

PROCESSES = ("console", "gateway", "ingest", "agent")
WIDE: ViewportSize = {"width": 1280, "height": 900}
NARROW: ViewportSize = {"width": 390, "height": 844}
MODEL = "llama-3.3-70b"
LONG = "W" * 120
ODD_NAMES = (
    "שלום עולם · شركة النجم",
    unicodedata.normalize("NFC", "Z\u0351\u036b\u0343a\u0315\u0321l\u0488g\u0334\u0322o\u0336"),
    "👩🏽🚀 🏳🌈 🧑🏿 𝔘𝔫𝔦",
    "<script>document.title='taken'</script>",
    "\"Quotes\" 'single' “curly” &amp; {{ seven }}",
    LONG,
)
"""What people call things: other directions, marks above marks, astral planes, markup, and as long as a name may be."""

_PEOPLE = """
from console.accounts.models import User
for name, role in (("ada", "admin"), ("finn", "finance"), ("dora", "developer")):
    user = User.objects.create_user(username=name, password="{password}", role=role)
user.tenants.add("{tenant}")
"""
_SIDEWAYS = """() => {
  const root = document.scrollingElement;
  if (root.scrollWidth <= root.clientWidth) return "";
  const wide = [...document.body.querySelectorAll("*")]
    .filter(each => each.getBoundingClientRect().right > root.clientWidth + 1);
  return `${root.scrollWidth} px: ` + wide.slice(-3).map(each => each.outerHTML.slice(0, 120)).join(" | ");
}"""


@contextmanager
def furnished(folder: Path) -> Iterator[Stack]:
    """With admin `ada`, finance `finn`, developer `dora` of the tenant Kestrel Labs, and every name from above."""
    stub = NvmlStub(folder)
    with (
        FakeEngineProcess(EngineOptions(models=(MODEL,)), folder / "truth.jsonl") as fleet,
        Stack(processes=PROCESSES, env=stub.environment) as stack,
    ):
        furnish(stack, fleet.urls)
        for name in ODD_NAMES:
            _oddly_named(stack, name)
        yield stack


def furnish(stack: Stack, urls: list[str]) -> None:
    tenant = _inventory(stack, urls)
    stack.manage("shell", "-c", _PEOPLE.format(password=PASSWORD, tenant=tenant))
    stack.api.revoke_key(stack.api.make_key(tenant, "old bot").id)
    key = stack.api.make_key(tenant, "support bot").key
    poor = stack.api.make_key(tenant, "out of money", budgets=[_budget("spent", 0)]).key
    _policies(stack)
    stack.settle()
    _traffic(stack, key, poor)


def _inventory(stack: Stack, urls: list[str]) -> str:
    """The tenant's id, beside a suspended one, a pool with endpoints and one that has no price."""
    api = stack.api
    tenant = api.make_tenant("Kestrel Labs", geo_fence={"allowed_regions": ["local"]})
    asleep = api.make_tenant("Sleeping Ltd")
    api.call("PATCH", f"/tenants/{asleep}", {"state": "suspended"})
    api.make_pool(MODEL, urls)
    api.make_pool("no-price-yet", urls, name="Waits for a price", price=None, region="eu-west-1")
    for budget in (_budget("month", 50_000_000), _budget("soft", 1, mode="soft")):
        api.call("POST", "/budgets", {**budget, "scope": "tenant", "subject": tenant})
    return tenant


def _budget(name: str, limit: int, mode: str = "hard") -> dict[str, object]:
    return {"name": name, "limit_microusd": limit, "window": "month", "mode": mode}


def _policies(stack: Stack) -> None:
    """Two published revisions and a draft that differs from them."""
    skills = {"hardware_telemetry": {"mode": "enforce"}}
    for mode in ("observe", "enforce"):
        skills["geo_residency"] = {"mode": mode}
        stack.api.put_policy("global", skills)
        stack.api.publish(f"Fences {mode}")
    stack.api.put_policy("global", skills | {"circuit_breaker": {"mode": "enforce"}})


def _traffic(stack: Stack, key: str, poor: str) -> None:
    for number in range(4):
        _ask(stack, key, f"Name river {number}.")
    for refused in (poor, key):
        try:
            _ask(stack, refused, "Name a river.", model=MODEL if refused == poor else "unheard-of")
        except openai.APIStatusError:
            continue
        raise AssertionError("a request that must be refused was answered")
    _recorded(stack, 6)


def _recorded(stack: Stack, count: int) -> None:
    """Refusals are records too; the ledger has answers alone."""
    query = "select count(*) as n from telemetry_requestrecord"
    until(lambda: stack.rows(query)[0]["n"] >= count, within_s=15, what=f"{count} records")


def _ask(stack: Stack, key: str, text: str, model: str = MODEL) -> None:
    stack.client(key).chat.completions.create(
        model=model, messages=[{"role": "user", "content": text}], max_tokens=8
    )


def _oddly_named(stack: Stack, name: str) -> None:
    tenant = stack.api.make_tenant(name)
    budget = _budget(name, 5_000_000)
    key = stack.api.make_key(tenant, name, budgets=[budget])
    stack.settle()
    _ask(stack, key.key, "Name a lake.")


def sideways(page: Page) -> str:
    """Which elements push the document wider than the window; empty when none does."""
    return str(page.evaluate(_SIDEWAYS))
