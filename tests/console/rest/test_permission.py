from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.urls import URLPattern
from django.utils import timezone

from console.accounts.models import ManagementToken
from console.accounts.permissions import PERMISSIONS
from console.accounts.services import token_revoke
from console.actor import SYSTEM
from console.api import _v1
from console.audit.models import AuditEntry
from policies.schema.credentials import mint
from tests.console.core_support import Api, day_budget, make_key, make_pool, make_tenant

pytestmark = pytest.mark.django_db

ROUTES = [
    (method, str(each.pattern), each.callback.view_class)  # type: ignore[attr-defined]
    for each in _v1
    if isinstance(each, URLPattern)
    for method in each.callback.view_class.actions  # type: ignore[attr-defined]
    if hasattr(each.callback.view_class, method.lower())  # type: ignore[attr-defined]
]


def address(pattern: str) -> str:
    return "/" + pattern.replace("<path:scope>", "global").replace("<str:", "").replace(">", "")


@pytest.mark.parametrize(
    ("method", "pattern", "view"), ROUTES, ids=[f"{m}-{p}" for m, p, _ in ROUTES]
)
def test_every_route_is_closed_without_a_management_token(
    method: str, pattern: str, view: Any
) -> None:
    issued = make_key(make_tenant())
    api = Api.of()
    before = AuditEntry.objects.count()
    for token in ("", "x", mint("mgmt"), issued.plain, api.token[:-1] + "!", api.token + " "):
        answer = Api(token, api.client)(method, address(pattern), {})
        assert (answer.status_code, answer.json()["code"]) == (401, "invalid_token")
        assert answer["WWW-Authenticate"].startswith("Bearer")
    without = api.client.generic(method, "/api/v1" + address(pattern))
    assert without.status_code == 401
    assert AuditEntry.objects.count() == before


@pytest.mark.parametrize("role", ["admin", "finance", "developer"])
@pytest.mark.parametrize(
    ("method", "pattern", "view"), ROUTES, ids=[f"{m}-{p}" for m, p, _ in ROUTES]
)
def test_every_route_follows_the_one_table(role: Any, method: str, pattern: str, view: Any) -> None:
    allowed = role in PERMISSIONS[view.actions[method]]
    answer = Api.of(role)(method, address(pattern), {})
    if allowed:
        assert answer.status_code not in (401, 403)
    else:
        assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")


@pytest.mark.parametrize("scheme", ["Basic", "Token", "", "Bearer Bearer"])
def test_another_scheme_is_refused(scheme: str) -> None:
    api = Api.of()
    headers = {"Authorization": f"{scheme} {api.token}"}
    assert api.client.get("/api/v1/tenants", headers=headers).status_code == 401


def test_a_revoked_and_an_expired_token_open_nothing() -> None:
    revoked, expired = Api.of(), Api.of()
    assert revoked("GET", "/tenants").status_code == 200
    first, second = ManagementToken.objects.order_by("created_at")
    token_revoke(SYSTEM, first.id)
    ManagementToken.objects.filter(pk=second.pk).update(
        expires_at=timezone.now() - timedelta(seconds=1)
    )
    assert revoked("GET", "/tenants").status_code == 401
    assert expired("GET", "/tenants").status_code == 401


def test_a_developer_sees_only_the_own_tenant() -> None:
    mine, other = make_tenant("Mine"), make_tenant("Other")
    my_key, other_key = (
        make_key(mine, budgets=(day_budget(),)),
        make_key(other, budgets=(day_budget(),)),
    )
    make_pool()
    api = Api.of("developer", (mine.id,))
    assert [row["id"] for row in api("GET", "/tenants").json()["items"]] == [mine.id]
    assert [row["id"] for row in api("GET", "/keys").json()["items"]] == [my_key.key.id]
    assert [row["tenant"] for row in api("GET", "/budgets").json()["items"]] == [mine.id]
    assert api("GET", f"/keys?tenant={other.id}").json()["items"] == []
    for path in (f"/tenants/{other.id}", f"/keys/{other_key.key.id}"):
        hidden, unknown = api("GET", path), api("GET", path[:-4] + "ZZZZ")
        assert hidden.status_code == 404
        assert hidden.json()["detail"] == unknown.json()["detail"]


def test_a_session_of_the_console_does_not_open_the_api() -> None:
    from console.accounts.models import User

    api = Api.of()
    api.client.force_login(User.objects.create_superuser("root"))
    assert api.client.get("/api/v1/tenants").status_code == 401
    assert (
        api.client.post("/api/v1/tenants", {}, content_type="application/json").status_code == 401
    )


def test_the_token_is_never_stored_in_plain() -> None:
    api = Api.of()
    stored = str(list(ManagementToken.objects.values())) + str(list(AuditEntry.objects.values()))
    assert api.token not in stored
    assert api.token[12:-4] not in stored
