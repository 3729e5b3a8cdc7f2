"""The studio in the browser's place: draft, two people, review, publish, roll back, and who may."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client

from console import broker
from console.accounts.models import User
from console.studio import services
from console.studio.models import PolicyDraft, PolicyRevision
from console.studio.services import DraftSpec
from policies.catalogue import CATALOGUE
from policies.contract.manifest import Skill
from tests.console.core_support import ADMIN, make_key, make_pool, make_tenant
from tests.console.studio.form_reader import read_form

pytestmark = pytest.mark.django_db
BREAKER = "/studio/skills/circuit_breaker/"
FENCE = "/studio/skills/geo_residency/"
PAGES = [
    "/studio/",
    BREAKER,
    f"{BREAKER}discard/",
    "/studio/review/",
    "/versions/",
    "/versions/1/",
    "/versions/1/rollback/",
    "/versions/workers/",
]
POSTS = [f"{BREAKER}check/", f"{BREAKER}yaml/", BREAKER, "/studio/review/", "/versions/1/rollback/"]


@pytest.fixture(autouse=True)
def _empty_broker() -> Iterator[None]:
    broker.client().flushdb()
    yield
    broker.client().flushdb()


def signed_in(role: str, name: str = "") -> Client:
    client = Client()
    client.force_login(User.objects.create_user(name or role, "a long password", role=role))
    return client


@pytest.fixture
def admin() -> Client:
    return signed_in("admin", "mara")


def drawn(client: Client, url: str) -> dict[str, list[str]]:
    """What the browser holds after the page came."""
    return read_form(client.get(url).content.decode(), "skill-form")


def publish(skills: dict[str, Any], scope: str = "global") -> None:
    services.document_save(ADMIN, scope, DraftSpec(skills=skills))
    services.publish(ADMIN, "test")


# ------------------------------------------------------------------------------------------ who may


@pytest.mark.parametrize("role", ["finance", "developer"])
def test_the_studio_is_for_admins(role: str) -> None:
    publish({"circuit_breaker": {"mode": "enforce"}})
    client = signed_in(role)
    for page in PAGES:
        assert client.get(page).status_code == 403, page
    for page in POSTS:
        assert client.post(page, {"note": "x"}).status_code == 403, page
    assert PolicyRevision.objects.count() == 1


def test_nobody_is_sent_to_sign_in() -> None:
    for page in PAGES:
        assert Client().get(page)["Location"].startswith("/sign-in/"), page


def test_every_page_opens_for_an_admin_and_keeps_to_the_strict_policy(admin: Client) -> None:
    publish({"circuit_breaker": {"mode": "enforce"}})
    for page in PAGES[1:]:
        answer = admin.get(page)
        assert answer.status_code == 200, page
        html = answer.content.decode()
        assert "style=" not in html
        assert "<script>" not in html
        assert "hx-on" not in html


@pytest.mark.parametrize(
    "url",
    [
        "/studio/skills/nope/",
        f"{BREAKER}?scope=tenants/ten_x",
        f"{BREAKER}?scope=global/x",
        f"{BREAKER}?scope=%00",
        "/versions/7/",
    ],
)
def test_what_does_not_exist_is_a_404(admin: Client, url: str) -> None:
    assert admin.get(url).status_code == 404


# ------------------------------------------------------------------------------------------ the form


EXAMPLES: dict[str, dict[str, Any]] = {
    "geo_residency": {"mode": "observe", "allowed_regions": ["us-9", "eu-west-1"]},
    "circuit_breaker": {"mode": "enforce", "ramp_percent": 5, "window_s": 30},
    "hardware_telemetry": {
        "fields": ["gpu_util", "fb_used"],
        "xid_critical": [79, 48],
        "memory_headroom_ratio": 0.125,
    },
}


@pytest.mark.parametrize("entry", CATALOGUE, ids=lambda entry: entry.slug)
@pytest.mark.parametrize("empty", [True, False])
def test_a_page_that_is_sent_back_untouched_changes_nothing(
    admin: Client, entry: Skill, *, empty: bool
) -> None:
    make_pool()
    own = {} if empty else EXAMPLES.get(entry.slug, {"mode": "observe"})
    services.document_save(ADMIN, "global", DraftSpec(skills={entry.slug: own}))
    url = f"/studio/skills/{entry.slug}/"
    assert admin.post(url, drawn(admin, url)).status_code == 302
    draft = PolicyDraft.objects.get()
    assert {slug: fields for slug, fields in draft.skills.items() if fields} == (
        {entry.slug: own} if own else {}
    )


def test_only_what_was_changed_is_written(admin: Client) -> None:
    own = {"mode": "observe", "window_s": 30}
    other = {"geo_residency": {"mode": "observe"}}
    services.document_save(ADMIN, "global", DraftSpec(skills={"circuit_breaker": own, **other}))
    values = drawn(admin, BREAKER) | {"value.window_s": ["45"]}
    assert admin.post(BREAKER, values).status_code == 302
    assert PolicyDraft.objects.get().skills == {
        "circuit_breaker": {"mode": "observe", "window_s": 45},
        **other,
    }


def test_a_reset_field_is_inherited_again(admin: Client) -> None:
    services.document_save(ADMIN, "global", DraftSpec(skills={"circuit_breaker": {"window_s": 30}}))
    values = drawn(admin, BREAKER)
    del values["set.window_s"]
    admin.post(BREAKER, values)
    assert PolicyDraft.objects.get().skills == {}


@pytest.mark.parametrize(
    ("field", "text", "words"),
    [
        ("window_s", "500", "less than or equal to 120"),
        ("window_s", "many", "Enter a whole number"),
        ("window_s", "", "Enter a whole number"),
        ("min_calls", "-1", "greater than or equal to 1"),
        ("mode", "on", "Choose one of the options"),
    ],
)
def test_a_value_that_is_refused_is_told_beside_its_field_and_nothing_is_saved(
    admin: Client, field: str, text: str, words: str
) -> None:
    values = drawn(admin, BREAKER)
    values |= {f"value.{field}": [text], f"set.{field}": ["1"]}
    answer = admin.post(BREAKER, values)
    html = answer.content.decode()
    assert answer.status_code == 422
    assert words in html.split(f'id="error-{field}"')[1].split("</div>")[0]
    assert "Nothing was saved" in html
    assert not PolicyDraft.objects.exists()


def test_the_second_of_two_people_is_told_and_sees_both_values(admin: Client) -> None:
    values = drawn(admin, BREAKER)
    services.document_save(
        ADMIN, "global", DraftSpec(skills={"circuit_breaker": {"window_s": 30, "min_calls": 9}})
    )
    answer = admin.post(BREAKER, values | {"value.window_s": ["45"]})
    html = answer.content.decode()
    assert answer.status_code == 409
    place = html.split('id="error-window_s"')[1].split("</div>")[0]
    assert "30 s" in place
    assert 'value="45"' in html.split('id="control-window_s"')[1].split("</div>")[0]
    assert PolicyDraft.objects.get().skills["circuit_breaker"]["window_s"] == 30
    # Saving again, from the page that told it, keeps theirs where only they had changed something.
    admin.post(BREAKER, read_form(html, "skill-form"))
    assert PolicyDraft.objects.get().skills["circuit_breaker"] == {"window_s": 45, "min_calls": 9}


def test_a_looser_setting_than_the_parents_names_the_parent(admin: Client) -> None:
    tenant = make_tenant("Aurora")
    publish({"geo_residency": {"mode": "enforce"}})
    url = f"{FENCE}?scope=tenants/{tenant.id}"
    values = drawn(admin, url) | {"value.mode": ["observe"], "set.mode": ["1"]}
    html = admin.post(f"{FENCE}check/?scope=tenants/{tenant.id}", values).content.decode()
    assert (
        "Global sets &quot;enforce&quot;; tenant Aurora cannot"
        in html.split('id="error-mode"')[1].split("</div>")[0]
    )
    assert "1 error blocks publishing" in html
    assert (
        html.count("tenant Aurora cannot go beyond that") == 2
    )  # beside the field, and in the list
    assert not PolicyDraft.objects.filter(scope=f"tenants/{tenant.id}").exists()


def test_each_value_says_where_it_comes_from(admin: Client) -> None:
    tenant = make_tenant("Aurora")
    publish({"circuit_breaker": {"window_s": 30}})
    services.document_save(
        ADMIN, f"tenants/{tenant.id}", DraftSpec(skills={"circuit_breaker": {"min_calls": 7}})
    )
    html = admin.get(f"{BREAKER}?scope=tenants/{tenant.id}").content.decode()

    def origin(field: str) -> str:
        return html.split(f'id="head-{field}"')[1].split('aria-label="')[1].split('"')[0]

    assert origin("window_s").endswith("global v1")
    assert origin("min_calls").endswith("tenant Aurora draft")
    assert origin("max_probes").endswith("default")


def test_hostile_names_and_values_are_text(admin: Client) -> None:
    tenant = make_tenant("<b>x</b>")
    html = admin.get(f"{BREAKER}?scope=tenants").content.decode()
    assert "<b>x</b>" not in html
    assert "&lt;b&gt;x" in html
    values = drawn(admin, f"{FENCE}?scope=tenants/{tenant.id}")
    values |= {"set.allowed_regions": ["1"], "null.allowed_regions": ["some"]}
    values["value.allowed_regions"] = ["<img src=x>"]
    html = admin.post(f"{FENCE}?scope=tenants/{tenant.id}", values).content.decode()
    assert "<img src=x>" not in html


# ------------------------------------------------------------------------------------------ YAML


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("scope: global\nskills:\n  circuit_braker: {}", "Did you mean circuit_breaker?"),
        ("skills:\n  circuit_breaker:\n    windows: 3", "Did you mean window_s?"),
        ("skills:\n  circuit_breaker:\n    window_s: 900", "less than or equal to 120"),
        ("skills: [1]", "must name skills"),
        ("scope: tenants/x\nskills: {}", "This page edits global"),
        ("skils: {}", "Did you mean skills?"),
        ("a: [", "Line 1"),
        ("", "must begin with"),
    ],
)
def test_a_document_that_is_refused_keeps_its_text(admin: Client, text: str, words: str) -> None:
    answer = admin.post(f"{BREAKER}yaml/", {"document": text, "edition": "0"})
    assert answer.status_code == 422
    html = answer.content.decode()
    assert words in html
    assert text.split("\n", maxsplit=1)[0] in html
    assert not PolicyDraft.objects.exists()


def test_a_document_typed_as_yaml_is_the_draft(admin: Client) -> None:
    text = "scope: global\nskills:\n  circuit_breaker:\n    mode: off\n    window_s: 30\n"
    assert admin.post(f"{BREAKER}yaml/", {"document": text, "edition": "0"}).status_code == 302
    assert PolicyDraft.objects.get().skills == {"circuit_breaker": {"mode": "off", "window_s": 30}}
    again = admin.post(f"{BREAKER}yaml/", {"document": "skills: {}", "edition": "0"})
    assert again.status_code == 409
    assert PolicyDraft.objects.get().skills != {}


def test_a_discarded_draft_is_what_was_published(admin: Client) -> None:
    publish({"circuit_breaker": {"window_s": 3}})
    services.document_save(ADMIN, "global", DraftSpec(skills={"circuit_breaker": {"window_s": 9}}))
    assert admin.post(f"{BREAKER}discard/").status_code == 302
    assert PolicyDraft.objects.get().skills == {"circuit_breaker": {"window_s": 3}}


def test_scopes_can_be_picked_and_searched(admin: Client) -> None:
    tenant = make_tenant("Aurora")
    make_tenant("Fjord")
    make_key(tenant, "support-bot")
    make_pool(model="llama")
    html = admin.get(f"{BREAKER}?scope=tenants&search=auro").content.decode()
    assert "Aurora" in html
    assert "Fjord" not in html
    assert "None matches" in admin.get(f"{BREAKER}?scope=keys&search=zzz").content.decode()
    assert "support-bot" in admin.get(f"{BREAKER}?scope=keys").content.decode()
    assert admin.get(f"{BREAKER}?scope=models/llama").status_code == 200
