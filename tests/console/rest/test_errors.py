from __future__ import annotations

from typing import Any

import pytest

from console.audit.models import AuditEntry
from console.studio.models import SnapshotRecord
from tests.console.core_support import URL, Api, make_key, make_pool, make_tenant

pytestmark = pytest.mark.django_db
FIELDS = {"type", "title", "status", "detail", "instance", "code", "request_id", "errors"}
PRICE = {"input_microusd_per_mtok": 1, "output_microusd_per_mtok": 2}


@pytest.fixture
def api() -> Api:
    return Api.of()


def check(answer: Any, status: int) -> dict[str, Any]:
    assert (answer.status_code, answer["Content-Type"]) == (status, "application/problem+json")
    document: dict[str, Any] = answer.json()
    assert set(document) == FIELDS
    assert document["status"] == status
    assert document["request_id"] == answer["x-request-id"]
    assert document["instance"] == answer.wsgi_request.path
    return document


def tenant(**fields: Any) -> dict[str, Any]:
    return {"name": "x"} | fields


def pool(**fields: Any) -> dict[str, Any]:
    return {"name": "x", "model": "m", "engine": "vllm"} | fields


def key(**fields: Any) -> dict[str, Any]:
    return {"tenant": "ten_X", "name": "x"} | fields


BAD: list[tuple[str, str, Any, int]] = [
    ("POST", "/tenants", {}, 422),
    ("POST", "/tenants", tenant(name=None), 422),
    ("POST", "/tenants", tenant(name=7), 422),
    ("POST", "/tenants", tenant(name=""), 422),
    ("POST", "/tenants", tenant(name="  "), 422),
    ("POST", "/tenants", tenant(name="a\x00b"), 422),
    ("POST", "/tenants", tenant(name="a\nb"), 422),
    ("POST", "/tenants", tenant(name="\u202eevil"), 422),
    ("POST", "/tenants", tenant(name="zero\u200bwidth"), 422),
    ("POST", "/tenants", tenant(name="x" * 121), 422),
    ("POST", "/tenants", tenant(name=["x"]), 422),
    ("POST", "/tenants", tenant(id="ten_own"), 422),
    ("POST", "/tenants", tenant(state="suspended"), 422),
    ("POST", "/tenants", tenant(geo_fence={}), 422),
    ("POST", "/tenants", tenant(geo_fence={"allowed_regions": None}), 422),
    ("POST", "/tenants", tenant(geo_fence={"allowed_regions": [None]}), 422),
    ("POST", "/tenants", tenant(geo_fence={"allowed_regions": ["EU"]}), 422),
    ("POST", "/tenants", tenant(geo_fence={"allowed_regions": "eu"}), 422),
    ("POST", "/tenants", tenant(geo_fence={"allowed_regions": ["eu"], "more": 1}), 422),
    ("POST", "/tenants", b"", 422),
    ("POST", "/tenants", b"{", 400),
    ("POST", "/tenants", b"[]", 400),
    ("POST", "/tenants", b"null", 400),
    ("POST", "/tenants", b'"x"', 400),
    ("POST", "/tenants", b'{"name": NaN}', 400),
    ("POST", "/tenants", b'{"name": "a", "name": "b"}', 400),
    ("POST", "/tenants", b'{"name": "a", "n\\u0061me": "b"}', 400),
    ("POST", "/tenants", b'{"name": "x", "geo_fence": {"a": 1, "a": 1}}', 400),
    ("POST", "/tenants", b'{"name": "\\ud800"}', 400),
    ("POST", "/tenants", b'{"name": "\xff"}', 400),
    ("POST", "/tenants", b'{"a":' * 40 + b"1" + b"}" * 40, 400),
    ("POST", "/tenants", b"[" * 100_000, 400),
    ("POST", "/tenants", b'{"name": "' + b"x" * (1 << 20) + b'"}', 413),
    ("POST", "/tenants?x=1", tenant(), 400),
    ("PATCH", "/tenants/ten_X", tenant(), 404),
    ("PATCH", "/tenants/%00", tenant(), 400),
    ("PATCH", "/tenants/ten_X", tenant(state="gone"), 422),
    ("PATCH", "/tenants/ten_X", tenant(name=None), 422),
    ("GET", "/tenants/%F0%9F%92%A9", None, 404),
    ("GET", "/tenants/' OR 1=1 --", None, 404),
    ("GET", "/tenants?limit=0", None, 400),
    ("GET", "/tenants?limit=201", None, 400),
    ("GET", "/tenants?limit=x", None, 400),
    ("GET", "/tenants?limit=99999999999999999999", None, 400),
    ("GET", "/tenants?cursor=x", None, 400),
    ("GET", "/tenants?cursor=%00", None, 400),
    ("GET", "/tenants?cursor=%F0%9F%92%A9", None, 400),
    ("GET", "/tenants?page=2", None, 400),
    ("GET", "/keys?tenant=%00", None, 400),
    ("POST", "/keys", key(), 422),
    ("POST", "/keys", key(tenant="x\x00"), 422),
    ("POST", "/keys", key(models=["m", None]), 422),
    ("POST", "/keys", key(models="m"), 422),
    ("POST", "/keys", key(budgets=None), 422),
    ("POST", "/keys", key(budgets=[None]), 422),
    ("POST", "/keys", key(budgets=[{"limit_microusd": -1, "window": "day"}]), 422),
    ("POST", "/keys", key(budgets=[{"limit_microusd": 1.5, "window": "day"}]), 422),
    ("POST", "/keys", key(budgets=[{"limit_microusd": "1", "window": "day"}]), 422),
    ("POST", "/keys", key(budgets=[{"limit_microusd": True, "window": "day"}]), 422),
    ("POST", "/keys", key(budgets=[{"limit_microusd": 2**63 - 1, "window": "day"}]), 422),
    ("POST", "/keys", b'{"budgets":[{"limit_microusd":' + b"9" * 400 + b"}]}", 400),
    ("POST", "/keys", key(budgets=[{"limit_microusd": 1, "window": "year"}]), 422),
    (
        "POST",
        "/keys",
        key(budgets=[{"limit_microusd": 1, "window": "day", "timezone": "X/Y"}]),
        422,
    ),
    ("POST", "/keys", key(rate_limits=None), 422),
    ("POST", "/keys", key(rate_limits={"requests_per_minute": -1}), 422),
    ("POST", "/keys", key(rate_limits={"rpm": 1}), 422),
    ("POST", "/keys", key(expires_at="tomorrow"), 422),
    ("POST", "/keys", key(expires_at="2099-01-01T00:00:00"), 422),
    ("POST", "/keys", key(key="ace_live_mine"), 422),
    ("POST", "/keys", key(digest="00"), 422),
    ("POST", "/keys/key_X/revoke", {}, 404),
    ("POST", "/keys/key_X/revoke", {"reason": 1}, 422),
    ("POST", "/keys/key_X/rotate", {}, 404),
    ("POST", "/keys/key_X/rotate", {"grace_s": -1}, 422),
    ("POST", "/keys/key_X/rotate", {"grace_s": 10**12}, 422),
    ("POST", "/pools", pool(engine="ollama"), 422),
    ("POST", "/pools", pool(model="bad model"), 422),
    ("POST", "/pools", pool(endpoints=[{"base_url": "http://127.0.0.1:1"}]), 422),
    ("POST", "/pools", pool(endpoints=[{"base_url": "https://169.254.169.254"}]), 422),
    ("POST", "/pools", pool(endpoints=[{"base_url": URL}, {"base_url": URL + "/v1"}]), 422),
    ("POST", "/pools", pool(endpoints=[{"base_url": URL, "region": "EU West"}]), 422),
    ("POST", "/pools", pool(endpoints={"base_url": URL}), 422),
    ("POST", "/pools", pool(price={"input_microusd_per_mtok": 1}), 422),
    ("POST", "/pools", pool(price=PRICE | {"output_microusd_per_mtok": -1}), 422),
    ("POST", "/pools", pool(price=PRICE | {"currency": "EUR"}), 422),
    ("POST", "/pools", pool(credential="a b\n"), 422),
    ("POST", "/pools", pool(max_output_tokens=0), 422),
    ("PATCH", "/pools/pool_X", {}, 404),
    (
        "POST",
        "/budgets",
        {"scope": "tenant", "subject": "ten_X", "limit_microusd": 1, "window": "day"},
        422,
    ),
    (
        "POST",
        "/budgets",
        {"scope": "all", "subject": "ten_X", "limit_microusd": 1, "window": "day"},
        422,
    ),
    ("PUT", "/policies/global", {}, 422),
    ("PUT", "/policies/global", {"skills": None}, 422),
    ("PUT", "/policies/global", {"skills": []}, 422),
    ("PUT", "/policies/global", {"skills": {"geo_residency": None}}, 422),
    ("PUT", "/policies/global", {"skills": {"geo_residency": {"mode": None}}}, 422),
    ("PUT", "/policies/global", {"skills": {"geo_residency": {"mode": "ON"}}}, 422),
    ("PUT", "/policies/global", {"skills": {"Geo Residency": {}}}, 422),
    ("PUT", "/policies/global", {"skills": {"nope": {}}}, 422),
    ("PUT", "/policies/global", {"skills": {}, "scope": "x"}, 422),
    ("PUT", "/policies/tenants/ten_X", {"skills": {}}, 404),
    ("PUT", "/policies/nonsense", {"skills": {}}, 404),
    ("PUT", "/policies/models/%00", {"skills": {}}, 400),
    ("POST", "/publish", {"note": 1}, 422),
    ("POST", "/publish", {"note": "x" * 1001}, 422),
    ("POST", "/publish", {"note": "a\x00"}, 422),
    ("POST", "/rollback", {"revision": 2**63}, 404),
    ("POST", "/rollback", {"revision": -1}, 404),
    ("GET", "/usage?group_by=colour", None, 400),
    ("GET", "/usage?from=yesterday", None, 400),
    ("GET", "/usage?from=2026-02-01&to=2026-01-01", None, 400),
    ("GET", "/usage?from=99999999999999999999999", None, 400),
    ("GET", "/usage?form=2026-01-01", None, 400),
    ("GET", "/requests/x", None, 404),
    ("GET", "/requests/%00", None, 400),
    ("GET", "/nothing", None, 404),
    ("DELETE", "/tenants", None, 405),
    ("PUT", "/publish", {}, 405),
    ("TRACE", "/tenants", None, 405),
]


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    BAD,
    ids=[f"{n}-{c[0]}-{c[1][:24]}" for n, c in enumerate(BAD)],
)
def test_bad_input_gets_a_problem_document_and_changes_nothing(
    api: Api, method: str, path: str, body: Any, status: int
) -> None:
    before = (AuditEntry.objects.count(), SnapshotRecord.objects.count())
    document = check(api(method, path, body), status)
    assert (AuditEntry.objects.count(), SnapshotRecord.objects.count()) == before
    if status == 422:
        assert document["errors"], document


def test_each_problem_points_to_its_place(api: Api) -> None:
    body = key(rate_limits={"requests_per_minute": "6", "x/y~z": 1}, models=[1])
    errors = check(api("POST", "/keys", body), 422)["errors"]
    assert {each["pointer"] for each in errors} == {
        "/rate_limits/requests_per_minute",
        "/rate_limits/x~1y~0z",
        "/models/0",
    }


def test_an_endpoint_that_may_not_be_is_named_by_its_number(api: Api) -> None:
    ends = [{"base_url": URL}, {"base_url": "https://10.0.0.1"}]
    (error,) = check(api("POST", "/pools", pool(endpoints=ends)), 422)["errors"]
    assert (error["pointer"], error["code"]) == ("/endpoints/1/base_url", "private_address")


def test_what_was_sent_is_not_sent_back(api: Api) -> None:
    answer = api("POST", "/pools", pool(credential="sk canary 4711"))
    assert b"canary" not in answer.content


def test_another_media_type_is_refused(api: Api) -> None:
    headers = {"Authorization": f"Bearer {api.token}"}
    answer = api.client.post(
        "/api/v1/tenants",
        "name=x",
        content_type="application/x-www-form-urlencoded",
        headers=headers,
    )
    check(answer, 415)


def test_a_method_that_is_not_there_is_named_with_those_that_are(api: Api) -> None:
    answer = api("DELETE", "/tenants")
    check(answer, 405)
    assert "POST" in answer["Allow"]


def test_our_own_fault_is_told_without_its_trace(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    from console.tenants import services

    def broken(*_: Any) -> None:
        raise RuntimeError("canary /etc/secret")

    monkeypatch.setattr(services, "tenant_create", broken)
    answer = api("POST", "/tenants", {"name": "x"})
    check(answer, 500)
    assert b"canary" not in answer.content


def test_outside_the_version_there_is_nothing_but_a_problem_document(api: Api) -> None:
    for path in ("/api/", "/api/v2/tenants", "/api/v1/tenants/"):
        check(api.client.get(path), 404)
        check(api.client.post(path), 404)


def test_a_real_object_survives_the_same_bad_patches(api: Api) -> None:
    made, issued, stands = make_tenant(), make_key(make_tenant("B")), make_pool()
    for path in (f"/tenants/{made.id}", f"/keys/{issued.key.id}", f"/pools/{stands.id}"):
        before = api("GET", path).content
        for body in ({"name": "a\x00"}, {"name": None}, {"id": "x"}, {"created_at": "x"}):
            check(api("PATCH", path, body), 422)
        assert api("GET", path).content == before
