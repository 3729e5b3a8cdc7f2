from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory

from console.accounts.models import User
from console.accounts.permissions import (
    PERMISSIONS,
    actor_of,
    can,
    permission_required,
    reach,
    visible_tenants,
)
from console.actor import SYSTEM, Actor
from tests.console.core_support import make_tenant

WRITES = [name for name in PERMISSIONS if name.endswith(".write") or name == "publish"]


def test_only_admins_write() -> None:
    assert WRITES
    for action in WRITES:
        assert PERMISSIONS[action] == {"admin": "all"}


def test_finance_sees_money_and_no_prompts_keys_or_policies() -> None:
    may = {action for action in PERMISSIONS if reach("finance", action)}
    assert {"usage.read", "budgets.read", "prices.read"} <= may
    assert not may & {"keys.read", "requests.read", "policies.read", "audit.read", "pools.read"}


def test_a_developer_reaches_only_the_own_tenants() -> None:
    reaches = {action: reach("developer", action) for action in PERMISSIONS}
    assert {value for action, value in reaches.items() if action != "docs.read"} == {"own", None}


def test_what_is_not_in_the_table_is_a_fault() -> None:
    with pytest.raises(KeyError):
        reach("admin", "everything")
    with pytest.raises(KeyError):
        permission_required("everything")


def test_reach_turns_into_tenants() -> None:
    developer = Actor("user:d", "developer", tenant_ids=frozenset({"ten_1"}))
    assert visible_tenants(SYSTEM, "audit.read") is None
    assert visible_tenants(developer, "keys.read") == frozenset({"ten_1"})
    with pytest.raises(PermissionDenied):
        visible_tenants(developer, "audit.read")


def request_of(user: Any) -> HttpRequest:
    request = RequestFactory().get("/page/?a=1")
    request.user = user
    return request


@permission_required("tenants.write")
def page(request: HttpRequest) -> HttpResponse:
    return HttpResponse("in")


@pytest.mark.django_db
def test_a_page_lets_in_by_role_and_sends_strangers_to_sign_in() -> None:
    admin = User.objects.create_user("a", role="admin")
    assert page(request_of(admin)).status_code == 200
    with pytest.raises(PermissionDenied):
        page(request_of(User.objects.create_user("f", role="finance")))
    away = page(request_of(AnonymousUser()))
    assert (away.status_code, away["Location"]) == (302, "/sign-in/?next=/page/%3Fa%3D1")


@pytest.mark.django_db
def test_an_actor_carries_the_tenants_of_a_developer_only() -> None:
    tenant = make_tenant()
    developer = User.objects.create_user("d")
    developer.tenants.add(tenant)
    actor = actor_of(request_of(developer))
    assert (actor.name, actor.role) == ("user:d", "developer")
    assert actor.tenant_ids == frozenset({tenant.id})
    with pytest.raises(PermissionDenied):
        actor_of(request_of(AnonymousUser()))


@pytest.mark.django_db
def test_a_control_is_shown_only_to_who_may_use_it() -> None:
    assert can(request_of(User.objects.create_user("a", role="admin")), "tenants.write")
    assert not can(request_of(User.objects.create_user("f", role="finance")), "tenants.write")
    assert not can(request_of(AnonymousUser()), "tenants.read")
