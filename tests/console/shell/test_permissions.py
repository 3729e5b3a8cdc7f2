"""Every page of these apps, for every visitor: nobody, admin, finance, developer, developer of elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.test import Client
from django.urls import reverse

from console.accounts.models import User
from console.actor import SYSTEM
from console.budgets.services import BudgetSpec
from console.keys.services import KeySpec, key_create
from console.providers.services import pool_create
from console.providers.specs import PoolSpec, PriceSpec
from console.tenants.models import Tenant
from console.tenants.services import TenantSpec, tenant_create

pytestmark = pytest.mark.django_db

GET_PAGES = {
    "overview:home": {"admin", "finance", "developer"},
    "accounts:account": {"admin", "finance", "developer", "stranger"},
    "tenants:list": {"admin", "finance", "developer", "stranger"},
    "tenants:create": {"admin"},
    "tenants:detail": {"admin", "finance", "developer"},
    "tenants:edit": {"admin"},
    "tenants:fence": {"admin"},
    "tenants:suspend": {"admin"},
    "tenants:resume": {"admin"},
    "keys:list": {"admin", "developer", "stranger"},
    "keys:create": {"admin"},
    "keys:detail": {"admin", "developer"},
    "keys:edit": {"admin"},
    "keys:rotate": {"admin"},
    "keys:revoke": {"admin"},
    "budgets:list": {"admin", "finance", "developer", "stranger"},
    "budgets:create": {"admin"},
    "budgets:edit": {"admin"},
    "budgets:archive": {"admin"},
    "providers:list": {"admin"},
    "providers:create": {"admin"},
    "providers:line": {"admin"},
    "providers:detail": {"admin"},
    "providers:edit": {"admin"},
    "providers:price": {"admin"},
    "shell:policy-chip": {"admin", "finance", "developer", "stranger"},
}
GET_PAGES["overview:home"] |= {"stranger"}
POST_ONLY = {"accounts:theme", "accounts:sign-out", "providers:test", "providers:test-saved"}
OPEN = {"accounts:sign-in", "accounts:set-up"}
VISITORS = ("admin", "finance", "developer", "stranger")


@dataclass(frozen=True)
class World:
    ids: dict[str, str]
    users: dict[str, User]
    tenant: Tenant

    def url(self, name: str) -> str:
        argument = self.ids.get(name.partition(":")[0])
        bare = name.split(":")[1] in {"list", "create", "line", "home", "account", "policy-chip"}
        return reverse(name, args=[] if bare or argument is None else [argument])


@pytest.fixture
def world() -> World:
    tenant = tenant_create(SYSTEM, TenantSpec(name="Aurora Bank"))
    other = tenant_create(SYSTEM, TenantSpec(name="Fjord Media"))
    budget = BudgetSpec(limit_microusd=5_000_000, window="month", name="Monthly")
    key = key_create(SYSTEM, KeySpec(tenant=tenant.id, name="support-bot", budgets=(budget,))).key
    price = PriceSpec(input_microusd_per_mtok=1, output_microusd_per_mtok=2)
    pool = pool_create(SYSTEM, PoolSpec(name="Pool", model="small", engine="vllm", price=price))
    bound: Any = key.budgets.get()
    users = {
        name: User.objects.create_user(name, "a long password", role=role)
        for name, role in zip(VISITORS, ("admin", "finance", "developer", "developer"), strict=True)
    }
    users["developer"].tenants.add(tenant)
    users["stranger"].tenants.add(other)
    ids = {"tenants": tenant.id, "keys": key.id, "budgets": bound.id, "providers": pool.id}
    return World(ids, users, tenant)


def client_of(world: World, visitor: str) -> Client:
    client = Client()
    client.force_login(world.users[visitor])
    return client


@pytest.mark.parametrize("visitor", VISITORS)
@pytest.mark.parametrize("name", sorted(GET_PAGES))
def test_a_page_opens_for_those_who_may_and_refuses_the_rest_in_words(
    world: World, name: str, visitor: str
) -> None:
    response = client_of(world, visitor).get(world.url(name))
    if visitor in GET_PAGES[name]:
        assert response.status_code == 200, response.content[:300]
    else:
        # A role without the right gets 403; a stranger's object does not exist at all.
        own = visitor == "stranger" and "developer" in GET_PAGES[name]
        assert response.status_code == (404 if own else 403)
        assert b"<h1" in response.content


@pytest.mark.parametrize("name", sorted(GET_PAGES.keys() - {"shell:policy-chip"}))
def test_nobody_is_sent_to_the_sign_in_page(world: World, name: str) -> None:
    response = Client().get(world.url(name))
    assert response.status_code == 302
    assert response["Location"].startswith("/sign-in/?next=")


def test_the_chip_tells_nobody_of_the_ended_session_and_of_nothing_else() -> None:
    """It is asked for by a clock; a redirect would throw people out of a form they are filling."""
    response = Client().get(reverse("shell:policy-chip"), headers={"HX-Request": "true"})
    assert response.status_code == 200
    assert "signed out" in response.content.decode()
    assert "worker" not in response.content.decode()


@pytest.mark.parametrize(
    ("referer", "back"),
    [
        ("http://testserver/tenants/?page=2", "/tenants/?page=2"),
        ("http://elsewhere.example/tenants/", "/tenants/new/"),
        ("", "/tenants/new/"),
    ],
)
def test_a_post_of_nobody_comes_back_to_the_page_of_its_form(referer: str, back: str) -> None:
    response = Client().post(reverse("tenants:create"), headers={"Referer": referer})
    assert response.status_code == 302
    assert parse_qs(urlsplit(response["Location"]).query) == {"next": [back]}


@pytest.mark.parametrize("name", sorted(GET_PAGES))
def test_reading_a_page_changes_nothing(world: World, name: str) -> None:
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    client = client_of(world, "admin")
    with CaptureQueriesContext(
        connection,
    ) as queries:
        client.get(world.url(name))
    writes = [
        q["sql"]
        for q in queries
        if q["sql"].lstrip().upper().startswith(("INSERT", "UPDATE", "DELETE"))
    ]
    assert writes == []


@pytest.mark.parametrize(
    "name",
    sorted(
        n
        for n in GET_PAGES
        if n.split(":")[1]
        in {"edit", "create", "suspend", "resume", "revoke", "rotate", "archive", "price", "fence"}
    ),
)
@pytest.mark.parametrize("visitor", ["finance", "developer", "stranger"])
def test_a_post_by_somebody_without_the_right_is_refused(
    world: World, name: str, visitor: str
) -> None:
    assert client_of(world, visitor).post(world.url(name), {"name": "x"}).status_code == 403


def test_every_route_of_these_apps_stands_in_one_of_the_tables() -> None:
    from django.urls import get_resolver

    apps = {"overview", "accounts", "tenants", "keys", "budgets", "providers", "shell"}
    spaces: list[Any] = get_resolver().url_patterns
    found = {
        f"{space.app_name}:{route.name}"
        for space in spaces
        if getattr(space, "app_name", "") in apps
        for route in space.url_patterns
    }
    assert found == set(GET_PAGES) | POST_ONLY | OPEN


def test_a_refused_fragment_is_told_beside_the_form_and_not_instead_of_it(world: World) -> None:
    htmx = {"HX-Request": "true"}
    client = Client(enforce_csrf_checks=True)
    client.force_login(world.users["admin"])
    without_token = client.post(world.url("tenants:create"), {"name": "x"}, headers=htmx)
    not_there = client_of(world, "admin").get("/tenants/ten_none/", headers=htmx)
    forbidden = client_of(world, "finance").get(world.url("tenants:create"), headers=htmx)
    for response, status in ((without_token, 403), (not_there, 404), (forbidden, 403)):
        assert response.status_code == status
        assert response["HX-Retarget"] == "#trouble"
        assert 'role="alert"' in response.content.decode()
        assert "<main" not in response.content.decode()


def test_a_form_without_its_token_is_refused_in_words(world: World) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(world.users["admin"])
    response = client.post(reverse("tenants:create"), {"name": "Sneaky"})
    assert response.status_code == 403
    assert "Nothing was changed" in response.content.decode()
    assert not Tenant.objects.filter(name="Sneaky").exists()
