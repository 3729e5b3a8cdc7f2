"""Spend pages: sums that are the ledger's, narrowed to who may see what, and an export that says the same."""

from __future__ import annotations

import csv
import io
import re
from typing import Any

import pytest
from django.test import Client

from console.accounts.models import User
from console.keys.models import ApiKey
from console.tenants.models import Tenant
from telemetry import events
from telemetry.store import Store
from tests.console.core_support import make_key, make_tenant
from tests.telemetry.factories import NOON, NOON_MS, batch, delivery, finished

pytestmark = pytest.mark.django_db
MARCH = "period=custom&from=2026-03-01&to=2026-03-31"
PAGES = ("/spend/", "/spend/ledger/", "/spend/ledger.csv")


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


def exported(client: Client, query: str = MARCH) -> list[dict[str, str]]:
    answer: Any = client.get(f"/spend/ledger.csv?{query}")
    rows = list(csv.DictReader(io.StringIO(b"".join(answer.streaming_content).decode())))
    assert int(answer["X-Row-Count"]) == len(rows)
    return rows


def figure(html: str) -> int:
    found = re.search(r"([0-9,]+) micro-dollars", html)
    assert found is not None
    return int(found[1].replace(",", ""))


@pytest.mark.parametrize("role", ["admin", "finance"])
def test_page_table_export_and_ledger_have_one_sum(key: ApiKey, role: str) -> None:
    made = [mine(key, f"req_{n}", output_tokens=n * 7 + 1) for n in range(60)]
    store(*made)
    client, whole = signed_in(role), sum(event.billed_microusd for event in made)
    html = client.get(f"/spend/?{MARCH}&by=key").content.decode()
    assert figure(html) == whole
    assert sum(int(row["billed_microusd"]) for row in exported(client)) == whole
    assert "60 rows" in client.get(f"/spend/ledger/?{MARCH}").content.decode()
    assert "support-bot" in html


def test_small_money_is_shown_to_the_micro_dollar(key: ApiKey) -> None:
    store(mine(key, input_tokens=0, cached_input_tokens=0, output_tokens=41))
    html = signed_in("finance").get(f"/spend/?{MARCH}").content.decode()
    assert "$0.000123" in html


def test_more_groups_than_are_listed_still_add_up(key: ApiKey) -> None:
    store(*(mine(key, f"req_{n}", model=f"model-{n}") for n in range(60)))
    html = signed_in("finance").get(f"/spend/?{MARCH}&by=model").content.decode()
    assert "10 others" in html
    listed = html.split("Spend by model")[-1].split("</tbody>")[0]
    counted = re.findall(r'<td class="n">([0-9,]+)</td>', listed)[0::3]
    assert sum(int(text.replace(",", "")) for text in counted) == 60


def test_a_developer_sees_the_own_tenant_only(key: ApiKey) -> None:
    other = make_key(make_tenant("Fjord"), "other-bot").key
    store(mine(key), mine(other, "req_2"), mine(other, "req_3"))
    client = signed_in("developer", key.tenant_id)
    for query in (MARCH, f"{MARCH}&tenant={other.tenant_id}", f"{MARCH}&key={other.id}"):
        assert "Fjord" not in client.get(f"/spend/ledger/?{query}").content.decode()
        assert all(row["tenant"] == "Aurora" for row in exported(client, query))
    assert figure(client.get(f"/spend/?{MARCH}").content.decode()) == mine(key).billed_microusd
    assert not exported(client, f"{MARCH}&tenant={other.tenant_id}")


def test_a_developer_without_a_tenant_sees_nothing(key: ApiKey) -> None:
    store(mine(key))
    client = signed_in("developer")
    assert "Nothing was spent in this period" in client.get(f"/spend/?{MARCH}").content.decode()
    assert exported(client) == []


def test_nobody_is_sent_to_sign_in() -> None:
    for page in PAGES:
        assert Client().get(page)["Location"].startswith("/sign-in/")


def test_the_pages_only_read(key: ApiKey) -> None:
    client = signed_in("finance")
    assert [client.post(page).status_code for page in PAGES] == [405, 405, 405]


def test_an_hour_belongs_to_the_day_of_the_readers_zone(key: ApiKey) -> None:
    late = NOON_MS + 11 * 3600 * 1000
    store(mine(key, finished_at_ms=late))
    client = signed_in("finance")
    for zone, day in (("UTC", "2026-03-10"), ("Asia/Tokyo", "2026-03-11")):
        rows = exported(client, f"period=custom&from={day}&to={day}&zone={zone}")
        assert len(rows) == 1


def test_cells_that_a_spreadsheet_would_run_are_text() -> None:
    key = make_key(make_tenant("=HYPERLINK(1)"), "@SUM(1)").key
    store(mine(key, model="-2+3"))
    (row,) = exported(signed_in("finance"))
    assert (row["tenant"], row["key"], row["model"]) == ("'=HYPERLINK(1)", "'@SUM(1)", "'-2+3")


def test_a_wrong_period_is_said_in_words(key: ApiKey) -> None:
    html = signed_in("finance").get("/spend/?period=custom&from=x&to=y").content.decode()
    assert "The period was not understood." in html


def test_hostile_filters_are_text(key: ApiKey) -> None:
    client = signed_in("finance")
    html = client.get(f"/spend/?{MARCH}&model=<script>x</script>&tenant=%00").content.decode()
    assert "<script>x" not in html
    assert "style=" not in html


def test_chart_and_table_say_the_same(key: ApiKey) -> None:
    store(mine(key), mine(key, "req_2", model="other"))
    client = signed_in("finance")
    chart = client.get(f"/spend/?{MARCH}&by=model").content.decode()
    table = client.get(f"/spend/?{MARCH}&by=model&view=table").content.decode()
    assert chart.count('<rect class="f1" x=') == 1
    assert "10 Mar, other" in chart
    assert '<th class="nowrap" scope="row">10 Mar</th>' in table
