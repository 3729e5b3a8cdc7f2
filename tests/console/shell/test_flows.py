"""What a person does at the pages, and what happens when two do it at once."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from console.accounts.models import User
from console.accounts.set_up import token_ensure, token_file
from console.actor import SYSTEM
from console.keys.models import ApiKey
from console.tenants.models import Tenant
from console.tenants.services import TenantPatch, TenantSpec, tenant_create, tenant_update
from policies.schema.snapshot import GeoFence

pytestmark = pytest.mark.django_db
PASSWORD = "correct horse battery"


@pytest.fixture
def admin() -> Client:
    client = Client()
    client.force_login(User.objects.create_user("mara", PASSWORD, role="admin"))
    return client


@pytest.fixture
def tenant() -> Tenant:
    return tenant_create(SYSTEM, TenantSpec(name="Aurora Bank"))


def set_up_values(token: str) -> dict[str, str]:
    return {"token": token, "username": "mara", "password": PASSWORD, "password_again": PASSWORD}


def test_the_first_admin_needs_the_token_and_then_the_page_is_gone(client: Client) -> None:
    token = token_ensure()
    assert client.get("/sign-in/")["Location"] == "/set-up/"
    assert client.post("/set-up/", set_up_values("wrong")).status_code == 422
    assert client.post("/set-up/", set_up_values("")).status_code == 422
    assert not User.objects.exists()
    assert client.post("/set-up/", set_up_values(token)).status_code == 302
    assert User.objects.get().role == "admin"
    assert not token_file().exists()
    assert client.get("/set-up/").status_code == 404


def test_a_wrong_name_and_a_wrong_password_read_the_same(client: Client, admin: Client) -> None:
    wrong = [{"username": "mara", "password": "no"}, {"username": "nobody", "password": "no"}]
    answers = [client.post("/sign-in/", values) for values in wrong]
    assert [answer.status_code for answer in answers] == [422, 422]
    assert all("Name or password is wrong." in answer.content.decode() for answer in answers)


@pytest.mark.parametrize(
    "target", ["https://evil.example/", "//evil.example", "javascript:alert(1)"]
)
def test_sign_in_leads_nowhere_else(client: Client, admin: Client, target: str) -> None:
    values = {"username": "mara", "password": PASSWORD, "next": target}
    assert client.post("/sign-in/", values)["Location"] == "/"


def test_a_fragment_after_the_session_ended_sends_the_browser_to_the_sign_in_page(
    client: Client,
) -> None:
    headers = {"HX-Request": "true", "HX-Current-URL": "http://testserver/keys/?page=2"}
    response = client.get("/sign-in/", headers=headers)
    assert response["HX-Redirect"] == "/sign-in/?next=%2Fkeys%2F%3Fpage%3D2"


def key_values(owner: Tenant, **changes: str) -> dict[str, str]:
    base = {
        "tenant": owner.id,
        "name": "bot",
        "every_model": "yes",
        "budget_window": "month",
        "budget_mode": "hard",
    }
    return base | changes


def test_a_new_key_is_shown_once_and_never_again(admin: Client, tenant: Tenant) -> None:
    response = admin.post(reverse("keys:create"), key_values(tenant, budget_limit="2.50"))
    key = ApiKey.objects.get()
    secret = response.context["plain"]
    assert secret in response.content.decode()
    assert "no-store" in response["Cache-Control"]
    assert response["HX-Replace-Url"] == reverse("keys:detail", args=[key.id])
    assert secret not in admin.get(reverse("keys:detail", args=[key.id])).content.decode()
    assert key.budgets.get().limit_microusd == 2_500_000


@pytest.mark.parametrize(
    ("field", "changes"),
    [
        ("name", {"name": " "}),
        ("name", {"name": "x" * 121}),
        ("name", {"name": "pay\u202eroll"}),
        ("tenant", {"tenant": "ten_other"}),
        ("models", {"every_model": "no"}),
        ("budget_limit", {"budget_limit": "-1"}),
        ("requests_per_minute", {"requests_per_minute": "many"}),
        ("expires_on", {"expires_on": "2001-01-01"}),
        ("expires_on", {"expires_on": "soon"}),
    ],
)
def test_bad_input_names_the_field_and_makes_no_key(
    admin: Client, tenant: Tenant, field: str, changes: dict[str, str]
) -> None:
    response = admin.post(reverse("keys:create"), key_values(tenant, **changes))
    assert response.status_code == 422
    assert field in response.context["form"].errors
    assert not ApiKey.objects.exists()


def test_revoking_asks_for_the_name(admin: Client, tenant: Tenant) -> None:
    admin.post(reverse("keys:create"), key_values(tenant))
    key = ApiKey.objects.get()
    url = reverse("keys:revoke", args=[key.id])
    assert admin.post(url, {"typed": "other"}).status_code == 422
    key.refresh_from_db()
    assert key.revoked_at is None
    assert admin.post(url, {"typed": "bot"}).status_code == 302
    key.refresh_from_db()
    assert key.revoked_at is not None


def test_a_fence_edited_in_an_old_tab_is_told_and_not_overwritten(
    admin: Client, tenant: Tenant
) -> None:
    url = reverse("tenants:fence", args=[tenant.id])
    version = admin.get(url).context["form"].initial["version"]
    fence = GeoFence(allowed_regions=("eu-west-1",))
    tenant_update(SYSTEM, tenant.id, TenantPatch(geo_fence=fence))
    response = admin.post(url, {"version": version, "fenced": "no"})
    assert response.status_code == 409
    assert "Nothing was saved" in response.content.decode()
    tenant.refresh_from_db()
    assert tenant.allowed_regions == ["eu-west-1"]


@pytest.mark.parametrize("more", ["EU", "eu_west", "eu--1", "-eu", "x" * 41, "<b>"])
def test_a_region_that_is_none_is_refused(admin: Client, tenant: Tenant, more: str) -> None:
    url = reverse("tenants:fence", args=[tenant.id])
    version = admin.get(url).context["form"].initial["version"]
    response = admin.post(url, {"version": version, "fenced": "yes", "more": more})
    assert response.status_code == 422
    tenant.refresh_from_db()
    assert tenant.allowed_regions is None


def test_a_page_and_its_fragment_come_from_one_address(admin: Client, tenant: Tenant) -> None:
    page = admin.get("/tenants/")
    headers = {"HX-Request": "true", "HX-Request-Type": "partial"}
    part = admin.get("/tenants/", headers=headers).content.decode()
    assert "<html" in page.content.decode()
    assert "<html" not in part
    assert "Aurora Bank" in part
    assert "HX-Request" in page["Vary"]
