from __future__ import annotations

from typing import Any

import pytest

from console import broker
from console.audit.models import AuditEntry
from console.keys.models import ApiKey
from console.providers.models import PriceVersion
from console.studio.models import SnapshotRecord
from policies.schema import wire
from policies.schema.report import WorkerReport
from tests.console.core_support import ADMIN, URL, Api, day_budget, make_key, make_pool, make_tenant

pytestmark = pytest.mark.django_db
POOL = {
    "name": "p",
    "model": "m",
    "engine": "vllm",
    "endpoints": [{"base_url": URL, "region": "eu"}],
    "price": {"input_microusd_per_mtok": 1, "output_microusd_per_mtok": 2},
}


@pytest.fixture(autouse=True)
def _empty_broker() -> None:
    broker.client().flushdb()


@pytest.fixture
def api() -> Api:
    return Api.of()


def test_a_tenant_is_created_read_listed_and_fenced(api: Api) -> None:
    made = api("POST", "/tenants", {"name": "Acme"})
    assert made.status_code == 201
    tenant = made.json()["id"]
    fence = {"allowed_regions": ["eu-west-1"]}
    patched = api("PATCH", f"/tenants/{tenant}", {"geo_fence": fence})
    assert (patched.status_code, patched.json()["geo_fence"]) == (200, fence)
    assert api("GET", f"/tenants/{tenant}").json() == patched.json()
    assert api("GET", "/tenants").json()["items"] == [patched.json()]
    lifted = api("PATCH", f"/tenants/{tenant}", {"geo_fence": None})
    assert lifted.json()["geo_fence"] is None


def test_a_key_is_created_with_budgets_and_shown_once(api: Api) -> None:
    body = {
        "tenant": make_tenant().id,
        "name": "app",
        "models": ["m"],
        "budgets": [{"limit_microusd": 5, "window": "month", "mode": "hard"}],
        "rate_limits": {"requests_per_minute": 60},
        "expires_at": "2099-01-01T00:00:00Z",
    }
    made = api("POST", "/keys", body).json()
    assert made["key"].startswith("ace_live_")
    seen = api("GET", f"/keys/{made['id']}")
    assert "key" not in seen.json()
    assert made["key"] not in seen.content.decode() + api("GET", "/keys").content.decode()
    (budget,) = api("GET", "/budgets").json()["items"]
    assert (budget["scope"], budget["subject"], budget["limit_microusd"]) == ("key", made["id"], 5)


def test_a_key_is_patched_rotated_and_revoked(api: Api) -> None:
    key = make_key(make_tenant()).key.id
    assert api("PATCH", f"/keys/{key}", {"name": "new"}).json()["name"] == "new"
    rotated = api("POST", f"/keys/{key}/rotate", {"grace_s": 5})
    assert rotated.json()["key"].startswith("ace_live_")
    revoked = api("POST", f"/keys/{key}/revoke")
    assert (revoked.status_code, revoked.json()["state"]) == (200, "revoked")
    assert api("POST", f"/keys/{key}/rotate").json()["code"] == "key_revoked"


def test_a_pool_is_created_changed_and_keeps_its_old_prices(api: Api) -> None:
    made = api("POST", "/pools", POOL)
    assert made.status_code == 201
    pool = made.json()
    assert pool["price"]["output_microusd_per_mtok"] == 2
    price = {"input_microusd_per_mtok": 3, "output_microusd_per_mtok": 4}
    patched = api("PATCH", f"/pools/{pool['id']}", {"price": price}).json()
    assert patched["endpoints"] == pool["endpoints"]
    prices = api("GET", f"/pools/{pool['id']}/prices").json()["items"]
    assert [each["input_microusd_per_mtok"] for each in prices] == [3, 1]
    assert api("GET", "/pools").json()["items"] == [patched]


def test_a_provider_key_goes_in_and_never_comes_out(api: Api) -> None:
    made = api("POST", "/pools", POOL | {"credential": "sk-canary-4711"})
    pool = made.json()["id"]
    seen = made.content + api("GET", "/pools").content + api("GET", f"/pools/{pool}").content
    assert b"canary" not in seen
    assert "canary" not in str(list(AuditEntry.objects.values()))
    assert made.json()["credential"]["fingerprint"]
    assert api("PATCH", f"/pools/{pool}", {"credential": None}).json()["credential"] is None


def test_a_budget_is_created_read_changed_and_archived(api: Api) -> None:
    tenant = make_tenant()
    body = {"scope": "tenant", "subject": tenant.id, "limit_microusd": 10, "window": "day"}
    made = api("POST", "/budgets", body).json()
    seen = api("GET", f"/budgets/{made['id']}").json()
    assert (seen["spent_microusd"], seen["remaining_microusd"]) == (0, 10)
    assert seen["resets_at"]
    assert (
        api("PATCH", f"/budgets/{made['id']}", {"limit_microusd": 7}).json()["limit_microusd"] == 7
    )
    assert api("DELETE", f"/budgets/{made['id']}").json()["archived_at"]
    assert api("GET", f"/budgets/{made['id']}").status_code == 404


def test_policies_are_put_by_scope_and_published(api: Api) -> None:
    tenant, pool = make_tenant(), make_pool(model="org/model-1.5:x")
    key = make_key(tenant).key.id
    skills = {"geo_residency": {"mode": "enforce"}}
    for scope in ("global", f"tenants/{tenant.id}", f"keys/{key}", f"models/{pool.model}"):
        put = api("PUT", f"/policies/{scope}", {"skills": skills})
        assert (put.status_code, put.json()["scope"], put["ETag"]) == (200, scope, '"1"')
        assert api("GET", f"/policies/{scope}").json()["skills"] == skills
    done = api("POST", "/publish", {"note": "first"})
    assert done.status_code == 200
    assert done.json()["version"] == SnapshotRecord.objects.first().version  # type: ignore[union-attr]
    assert len(api("GET", "/policies").json()["items"]) == 4


def test_if_match_guards_an_edition(api: Api) -> None:
    body = {"skills": {"geo_residency": {"mode": "observe"}}}
    assert api("PUT", "/policies/global", body, **{"If-Match": '"0"'}).status_code == 200
    stale = api("PUT", "/policies/global", {"skills": {}}, **{"If-Match": '"0"'})
    assert (stale.status_code, stale.json()["code"]) == (412, "stale")
    assert api("GET", "/policies/global").json()["skills"] == body["skills"]
    odd = api("PUT", "/policies/global", {"skills": {}}, **{"If-Match": "W/x"})
    assert (odd.status_code, odd.json()["code"]) == (400, "invalid_if_match")


def test_what_cannot_be_published_is_told_with_scope_and_pointer(api: Api) -> None:
    tenant = make_tenant()
    api(
        "PUT",
        "/policies/global",
        {"skills": {"geo_residency": {"mode": "enforce", "allowed_regions": ["eu"]}}},
    )
    looser = {"geo_residency": {"allowed_regions": ["eu", "us"]}}
    put = api("PUT", f"/policies/tenants/{tenant.id}", {"skills": looser})
    assert put.status_code == 200
    before = SnapshotRecord.objects.count()
    refused = api("POST", "/publish", {})
    assert (refused.status_code, refused.json()["code"]) == (422, "does_not_compile")
    (error,) = refused.json()["errors"]
    assert error["scope"] == f"tenants/{tenant.id}"
    assert error["pointer"] == "/skills/geo_residency/allowed_regions"
    assert SnapshotRecord.objects.count() == before


def test_a_rollback_gives_a_new_version(api: Api) -> None:
    first = api("POST", "/publish", {}).json()
    back = api("POST", "/rollback", {"revision": first["revision"], "note": "back"}).json()
    assert back["version"] > first["version"]
    assert api("POST", "/rollback", {"revision": 999}).status_code == 404


def report(worker: str, **fields: Any) -> bytes:
    import msgspec
    from django.utils import timezone

    now_ms = int(timezone.now().timestamp() * 1000)
    values: dict[str, Any] = {
        "build": "1",
        "pid": 1,
        "desired_version": 1,
        "actual_version": 1,
        "state": "ack",
        "reason": "",
        "ack_ms": 12.5,
        "compile_ms": 1.0,
        "heartbeat_ms": now_ms - fields.pop("age_ms", 0),
        "requests_total": 0,
        "in_flight": 0,
    }
    return msgspec.json.encode(WorkerReport(id=worker, **(values | fields)))


def test_workers_are_shown_with_versions_silence_and_absence(api: Api) -> None:
    make_tenant()
    make_tenant("Two")
    for name, age_ms in (("a", 0), ("b", 11_000), ("c", 601_000)):
        broker.client().hset(wire.WORKERS_KEY, name, report(name, age_ms=age_ms))
    broker.client().hset(wire.WORKERS_KEY, "d", b"{not json")
    rows = api("GET", "/workers").json()
    assert [(row["id"], row["state"]) for row in rows] == [("a", "ack"), ("b", "unknown")]
    assert (rows[0]["desired_version"], rows[0]["actual_version"], rows[0]["ack_ms"]) == (
        2,
        1,
        12.5,
    )


def test_without_redis_the_workers_are_unknown_not_none(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    import redis

    def refuse() -> None:
        raise redis.ConnectionError("away")

    monkeypatch.setattr(broker, "client", refuse)
    answer = api("GET", "/workers")
    assert (answer.status_code, answer.json()["code"]) == (503, "redis_unreachable")


@pytest.mark.parametrize("path", ["/tenants", "/keys", "/pools", "/budgets"])
def test_lists_are_paged_without_gap_or_repeat(api: Api, path: str) -> None:
    tenant = make_tenant("T0")
    for number in range(1, 5):
        make_tenant(f"T{number}")
        make_key(tenant, f"k{number}", budgets=(day_budget(),))
        make_pool(f"p{number}")
    whole = [row["id"] for row in api("GET", path).json()["items"]]
    seen: list[str] = []
    cursor = ""
    while True:
        page = api("GET", f"{path}?limit=2&cursor={cursor}").json()
        assert len(page["items"]) <= 2
        seen += [row["id"] for row in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert seen == whole
    assert len(seen) == len(set(seen)) >= 4


@pytest.mark.parametrize("path", ["/tenants", "/keys", "/pools", "/budgets"])
def test_a_list_costs_the_same_queries_however_long_it_is(
    api: Api, path: str, django_assert_max_num_queries: Any
) -> None:
    tenant = make_tenant("T")
    for number in range(6):
        make_key(tenant, f"k{number}", budgets=(day_budget(),))
        make_pool(f"p{number}", credential="sk-x")
        make_tenant(f"T{number}")
    api("GET", path)
    with django_assert_max_num_queries(5):
        assert len(api("GET", path).json()["items"]) >= 6


def test_reading_changes_nothing(api: Api) -> None:
    key = make_key(make_tenant()).key
    pool = make_pool()
    api("GET", "/tenants")
    before = _fingerprint()
    for path in (
        "/tenants",
        f"/tenants/{key.tenant_id}",
        "/keys",
        f"/keys/{key.id}",
        "/budgets",
        "/pools",
        f"/pools/{pool.id}",
        f"/pools/{pool.id}/prices",
        "/policies",
        "/policies/global",
        "/workers",
        "/usage",
        "/requests/x",
    ):
        for _ in range(2):
            assert api("GET", path).status_code in (200, 404)
    assert _fingerprint() == before


def _fingerprint() -> list[Any]:
    from django.apps import apps

    return [
        sorted(map(str, model.objects.values()))  # type: ignore[attr-defined]
        for model in apps.get_models()
        if model.__module__.startswith(("console.", "telemetry."))
    ]


def test_every_write_leaves_one_line_in_the_audit_log(api: Api) -> None:
    tenant = api("POST", "/tenants", {"name": "Acme"}).json()["id"]
    line = AuditEntry.objects.get(action="tenant_create")
    assert line.actor.startswith("token:tok_")
    assert (line.role, line.object_id, line.before) == ("admin", tenant, None)
    assert line.after is not None
    assert line.after["name"] == "Acme"
    assert line.request_id.startswith("req_")
    api("PATCH", f"/tenants/{tenant}", {"name": "Ajax"})
    change = AuditEntry.objects.get(action="tenant_update")
    assert (change.before or {})["name"] == "Acme"
    assert (change.after or {})["name"] == "Ajax"


def test_the_openapi_document_names_every_address(api: Api) -> None:
    from console.api import _v1

    document = api.client.get("/api/schema/?format=json")
    assert document.status_code == 200
    text = document.content.decode()
    for each in _v1:
        path = str(each.pattern).replace("<str:", "{").replace("<path:", "{").replace(">", "}")
        assert f"/api/v1/{path}" in text


def test_the_openapi_document_is_valid_and_speaks_of_every_method() -> None:
    from drf_spectacular.drainage import GENERATOR_STATS
    from drf_spectacular.generators import SchemaGenerator
    from drf_spectacular.validation import validate_schema

    GENERATOR_STATS.reset()
    generator: Any = SchemaGenerator
    validate: Any = validate_schema
    document = generator().get_schema(request=None, public=True)
    validate(document)
    assert not GENERATOR_STATS
    for path, methods in document["paths"].items():
        for name, method in methods.items():
            words = method.get("description", "")
            assert words, (path, name)
            assert "`actions`" not in words, (path, name)


def test_no_secret_reaches_a_log(api: Api, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    tenant = make_tenant()
    plain = api("POST", "/keys", {"tenant": tenant.id, "name": "app"}).json()["key"]
    api("POST", "/pools", POOL | {"credential": "sk-canary-4711"})
    api("POST", "/pools", POOL | {"credential": "sk-canary-4711", "name": 7})
    api("POST", "/tenants", {"name": plain, "odd": "sk-canary-4711"})
    for secret in (plain, "sk-canary-4711", api.token):
        assert secret not in caplog.text


def test_head_is_answered_like_get_without_a_body(api: Api) -> None:
    answer = api("HEAD", "/tenants?limit=1")
    assert (answer.status_code, answer.content) == (200, b"")
    assert Api.of("finance")("HEAD", "/keys").status_code == 403


def test_names_sent_twice_are_refused_by_name(api: Api) -> None:
    make_tenant("Acme")
    refused = api("POST", "/tenants", {"name": "Acme"})
    assert refused.status_code == 422
    assert refused.json()["errors"] == [
        {"pointer": "/name", "message": "This name is taken.", "code": "taken"}
    ]


def test_the_same_price_again_is_no_new_version(api: Api) -> None:
    pool = api("POST", "/pools", POOL).json()["id"]
    api("PATCH", f"/pools/{pool}", {"price": POOL["price"]})
    assert PriceVersion.objects.count() == 1


def test_actors_are_told_apart(api: Api) -> None:
    make_tenant()
    assert set(AuditEntry.objects.values_list("actor", flat=True)) == {"system", ADMIN.name}
    assert ApiKey.objects.count() == 0
