"""The explainer: the sentence, the stages with what did not run, the price as arithmetic."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from console.accounts.models import User
from console.keys.models import ApiKey
from console.studio import services
from console.studio.services import DraftSpec
from console.tenants.models import Tenant
from telemetry import events
from telemetry.models import LedgerEntry, RequestRecord
from telemetry.store import Store
from tests.console.core_support import ADMIN, make_key, make_pool, make_tenant
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


def test_the_price_is_shown_as_arithmetic_with_its_rounding(key: ApiKey) -> None:
    store(
        mine(
            key,
            input_tokens=3,
            cached_input_tokens=1,
            output_tokens=1,
            input_microusd_per_mtok=100_000,
        )
    )
    html = page(signed_in("admin"), "/requests/req_1/")
    # 2 x 0.1 + 1 x 0.5 + 1 x 3 = 3.7 micro-dollars, rounded up to 4.
    assert "<td>3.7</td>" in html
    assert "<td>+0.3</td>" in html
    assert "4 µ$" in html
    assert "$0.000004" in html
    assert LedgerEntry.objects.get().billed_microusd == 4


def test_what_a_hard_budget_did_not_pay_is_shown_and_not_called_rounding(key: ApiKey) -> None:
    store(
        mine(
            key,
            input_tokens=900,
            cached_input_tokens=0,
            output_tokens=0,
            input_microusd_per_mtok=1_000_000,
            hold_microusd=200,
            billed_microusd=250,
        )
    )
    html = page(signed_in("admin"), "/requests/req_1/")
    assert "Not billed: more than was held, in a hard budget" in html
    assert "<td>−650</td>" in html
    assert "Rounded up" not in html


def test_the_sentence_says_who_served_and_who_was_ruled_out(key: ApiKey) -> None:
    pool = make_pool("small pods")
    endpoint: Any = pool.endpoints.get()
    decisions = events.Decisions(
        candidates=(endpoint.id, "ep_us"),
        eliminated=(events.Elimination("ep_us", "geo_residency", "region_not_allowed"),),
        attempts=(events.Attempt(endpoint.id, 200, "", 1500),),
        stages=(("geo_residency", "enforce", "next"),),
    )
    store(mine(key, endpoint_id=endpoint.id, decisions=decisions, policy_revision=0))
    html = page(signed_in("admin"), "/requests/req_1/")
    assert "Served by small pods in eu-west-1 in 250 ms." in html
    assert "Geo-fence data residency ruled out 1 of 2 endpoints." in html
    assert "the fence does not allow its region" in html
    assert "Ruled out 1 endpoint" in html
    assert "tenant&#x27;s own fence" in html
    assert "Skipped: off here" in html


def test_stages_that_did_not_run_say_why(key: ApiKey) -> None:
    fields = {"circuit_breaker": {"mode": "enforce", "ramp_percent": 0}}
    services.document_save(ADMIN, "global", DraftSpec(skills=fields))
    done = services.publish(ADMIN)
    store(mine(key, policy_revision=done.revision))
    html = page(signed_in("admin"), "/requests/req_1/")
    assert "this key is outside the ramp of 0 %" in html
    assert f"/versions/{done.revision}/" in html


def test_a_policy_that_is_not_kept_is_not_guessed(key: ApiKey) -> None:
    store(mine(key, policy_revision=99))
    html = page(signed_in("admin"), "/requests/req_1/")
    assert "the policy of that time is not kept" in html


def test_a_refused_request_is_explained_and_costs_nothing(key: ApiKey) -> None:
    store(refused(tenant_id=key.tenant_id, key_id=key.id))
    html = page(signed_in("admin"), "/requests/req_refused/")
    assert "Refused with 429 before anything was sent to a model" in html
    assert "The budget of Aurora is used up until 2026-04-01." in html
    assert "Nothing was billed" in html


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        ("client_gone", "The client left"),
        ("timeout", "did not answer in time"),
        ("interrupted", "successor"),
    ],
)
def test_an_end_that_is_not_well_is_said_in_words(key: ApiKey, outcome: Any, words: str) -> None:
    store(mine(key, outcome=outcome, usage_source="counted"))
    html = page(signed_in("admin"), "/requests/req_1/")
    assert words in html
    assert "counted up to the cut" in html


def test_a_record_that_was_dropped_leaves_the_price(key: ApiKey) -> None:
    store(mine(key))
    RequestRecord.objects.all().delete()
    assert "no longer kept" in page(signed_in("admin"), "/requests/req_1/")
