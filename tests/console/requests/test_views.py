"""Recent requests: filtered, paged, and who may see them."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from console.accounts.models import User
from console.keys.models import ApiKey
from console.tenants.models import Tenant
from telemetry import events
from telemetry.store import Store
from tests.console.core_support import make_key, make_tenant
from tests.telemetry.factories import NOON, batch, delivery, finished, refused

pytestmark = pytest.mark.django_db


@pytest.fixture
def key() -> ApiKey:
    return make_key(make_tenant("Aurora"), "support-bot").key


def store(*made: events.Event) -> None:
    Store().write(batch(*(delivery(event, n) for n, event in enumerate(made, 1))), NOON)


def mine(key: ApiKey, request_id: str = "req_1", **fields: Any) -> events.RequestFinished:
    return finished(request_id, tenant_id=key.tenant_id, key_id=key.id, **fields)


def signed_in(role: str, *tenants: str) -> Client:
    user = User.objects.create_user(role + "-user", "a long password", role=role)
    user.tenants.set(Tenant.objects.filter(pk__in=tenants))
    client = Client()
    client.force_login(user)
    return client


def page(client: Client, url: str) -> str:
    answer = client.get(url)
    assert answer.status_code == 200
    html = str(answer.content.decode())
    assert "style=" not in html
    return html


def test_a_developer_sees_own_requests_and_no_others(key: ApiKey) -> None:
    store(mine(key), finished("req_2", tenant_id="ten_other"))
    client = signed_in("developer", key.tenant_id)
    html = page(client, "/requests/")
    assert "/requests/req_1/" in html
    assert "req_2" not in html
    assert client.get("/requests/req_1/").status_code == 200
    assert client.get("/requests/req_2/").status_code == 404


def test_finance_reads_no_requests(key: ApiKey) -> None:
    store(mine(key))
    client = signed_in("finance")
    assert client.get("/requests/").status_code == 403
    assert client.get("/requests/req_1/").status_code == 403


def test_nobody_is_sent_to_sign_in() -> None:
    for url in ("/requests/", "/requests/req_1/"):
        assert Client().get(url)["Location"].startswith("/sign-in/")


def test_an_unknown_id_is_a_page_that_says_what_may_be(key: ApiKey) -> None:
    answer = signed_in("admin").get("/requests/req_%3Cb%3Ex/")
    assert answer.status_code == 404
    html = answer.content.decode()
    assert "No such request" in html
    assert "<b>x" not in html


def test_the_list_is_filtered_and_paged(key: ApiKey) -> None:
    made = [mine(key, f"req_{n}") for n in range(55)]
    store(*made, refused("req_no", tenant_id=key.tenant_id, key_id=key.id))
    client = signed_in("admin")
    html = page(client, "/requests/")
    assert html.count('<th class="mono" scope="row"') == 50
    older = html.split("before=")[1].split('"')[0]
    assert page(client, f"/requests/?before={older}").count('<th class="mono" scope="row"') == 6
    assert page(client, "/requests/?ending=refused").count('<th class="mono" scope="row"') == 1
    assert "No request matches" in page(client, "/requests/?ending=failed")
    assert "No request matches" in page(client, "/requests/?tenant=ten_none")
    assert page(client, "/requests/?before=x&ending=nope%00").count('scope="row"') == 50


def test_an_id_typed_into_the_search_opens_its_page(key: ApiKey) -> None:
    store(mine(key))
    assert signed_in("admin").get("/requests/?search=req_1")["Location"] == "/requests/req_1/"


def test_an_empty_list_says_what_will_come(key: ApiKey) -> None:
    assert "No requests yet" in page(signed_in("admin"), "/requests/")


def test_rerouted_are_those_that_were_served_elsewhere(key: ApiKey) -> None:
    out = (events.Elimination("ep_us", "geo_residency", "region_not_allowed"),)
    decisions = events.Decisions(candidates=("ep_a", "ep_us"), eliminated=out)
    fields: dict[str, Any] = {"decisions": decisions}
    gone = refused("req_no", tenant_id=key.tenant_id, key_id=key.id, **fields)
    store(mine(key, **fields), mine(key, "req_2"), gone)
    html = page(signed_in("admin"), "/requests/?ending=moved")
    assert "/requests/req_1/" in html
    assert "req_2" not in html
    assert "req_no" not in html
