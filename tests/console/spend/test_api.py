from __future__ import annotations

from typing import Any

import pytest

from console.keys.models import ApiKey
from telemetry import events
from telemetry.store import Store
from tests.console.core_support import Api, make_key, make_tenant
from tests.telemetry.factories import NOON, batch, delivery, finished, refused

pytestmark = pytest.mark.django_db
PERIOD = "from=2026-03-01&to=2026-04-01"


@pytest.fixture
def key() -> ApiKey:
    return make_key(make_tenant()).key


def store(*made: events.Event) -> None:
    Store().write(batch(*(delivery(event, n) for n, event in enumerate(made, 1))), NOON)


def mine(key: ApiKey, request_id: str = "req_1", **fields: Any) -> events.RequestFinished:
    return finished(request_id, tenant_id=key.tenant_id, key_id=key.id, **fields)


def test_usage_is_the_ledgers_to_the_micro_dollar(key: ApiKey) -> None:
    made = [mine(key, f"req_{n}", output_tokens=n * 7 + 1) for n in range(5)]
    store(*made)
    answer = Api.of()("GET", f"/usage?{PERIOD}&group_by=key").json()
    (row,) = answer["rows"]
    assert (row["key"], row["name"], row["requests"]) == (key.id, key.name, 5)
    assert row["billed_microusd"] == sum(event.billed_microusd for event in made)
    assert row["output_tokens"] == sum(event.output_tokens for event in made)


@pytest.mark.parametrize("group", ["tenant", "key", "model"])
def test_usage_is_grouped_as_asked(key: ApiKey, group: str) -> None:
    store(mine(key), mine(key, "req_2", model="other"))
    answer = Api.of("finance")("GET", f"/usage?{PERIOD}&group_by={group}").json()
    assert len(answer["rows"]) == (2 if group == "model" else 1)
    assert all(group in row for row in answer["rows"])


def test_without_any_event_the_age_is_unknown_not_now() -> None:
    assert Api.of()("GET", "/usage").json() == {"rows": [], "as_of": None}


@pytest.mark.parametrize(
    "period",
    [
        "from=2026-03-10T12:00:00Z&to=2026-03-10T12:00:01Z",
        "from=2026-03-10T13:00:00%2B01:00&to=2026-03-10T13:00:01%2B01:00",
        "from=1773144000000&to=1773144001000",
    ],
    ids=["utc", "offset", "unix"],
)
def test_a_period_may_be_said_in_three_ways_and_excludes_its_end(key: ApiKey, period: str) -> None:
    store(mine(key), mine(key, "req_2", finished_at_ms=1773144001000))
    (row,) = Api.of()("GET", f"/usage?{period}").json()["rows"]
    assert row["requests"] == 1


def test_a_developer_sees_the_usage_of_the_own_tenant_only(key: ApiKey) -> None:
    store(mine(key), finished("req_2", tenant_id="ten_other"))
    rows = Api.of("developer", (key.tenant_id,))("GET", f"/usage?{PERIOD}").json()["rows"]
    assert [row["tenant"] for row in rows] == [key.tenant_id]
    assert Api.of("developer")("GET", f"/usage?{PERIOD}").json()["rows"] == []


def test_a_request_is_explained_with_decisions_and_arithmetic(key: ApiKey) -> None:
    event = mine(key)
    store(event)
    answer = Api.of()("GET", "/requests/req_1").json()
    (attempt,), (charge,) = answer["attempts"], answer["charges"]
    assert attempt["decisions"]["candidates"] == ["ep_a", "ep_b"]
    products = sum(part["product"] for part in charge["parts"])
    assert -(-products // 1_000_000) == charge["billed_microusd"] == event.billed_microusd
    assert sum(part["tokens"] for part in charge["parts"][:2]) == event.input_tokens
    assert answer["billed_microusd"] == event.billed_microusd


def test_a_refused_request_is_explained_and_cost_nothing(key: ApiKey) -> None:
    store(refused(tenant_id=key.tenant_id, key_id=key.id))
    answer = Api.of()("GET", "/requests/req_refused").json()
    assert (answer["billed_microusd"], answer["charges"]) == (0, [])
    assert answer["attempts"][0]["code"] == "budget_exhausted"


def test_a_request_of_another_tenant_does_not_exist(key: ApiKey) -> None:
    store(finished("req_9", tenant_id="ten_other"))
    api = Api.of("developer", (key.tenant_id,))
    hidden, unknown = api("GET", "/requests/req_9"), api("GET", "/requests/req_0")
    assert hidden.status_code == unknown.status_code == 404
    assert hidden.json()["detail"] == unknown.json()["detail"]
