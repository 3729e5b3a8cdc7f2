"""Review, publish, roll back, and the table of what each worker runs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from django.test import Client

from console import broker
from console.accounts.models import User
from console.studio import services
from console.studio.models import PolicyDraft, PolicyRevision, SnapshotRecord
from console.studio.services import DraftSpec
from policies.schema import wire
from tests.console.core_support import ADMIN, make_tenant

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _empty_broker() -> Iterator[None]:
    broker.client().flushdb()
    yield
    broker.client().flushdb()


@pytest.fixture
def admin() -> Client:
    client = Client()
    client.force_login(User.objects.create_user("mara", "a long password", role="admin"))
    return client


def publish(skills: dict[str, Any]) -> None:
    services.document_save(ADMIN, "global", DraftSpec(skills=skills))
    services.publish(ADMIN, "test")


# ------------------------------------------------------------------------------------------ publishing


def fingerprint(client: Client) -> str:
    html = client.get("/studio/review/").content.decode()
    return html.split('name="fingerprint" value="')[1].split('"')[0]


def test_what_was_reviewed_is_published_with_its_note(admin: Client) -> None:
    services.document_save(
        ADMIN, "global", DraftSpec(skills={"circuit_breaker": {"mode": "enforce"}})
    )
    html = admin.get("/studio/review/").content.decode()
    assert "inherited" in html
    assert "Begins to act on requests" in html
    answer = admin.post("/studio/review/", {"fingerprint": fingerprint(admin), "note": "go"})
    assert answer["Location"] == "/versions/1/"
    assert PolicyRevision.objects.get().note == "go"
    assert "Nothing to publish" in admin.get("/studio/review/").content.decode()


def test_a_review_that_is_out_of_date_publishes_nothing(admin: Client) -> None:
    services.document_save(ADMIN, "global", DraftSpec(skills={"circuit_breaker": {"window_s": 3}}))
    seen = fingerprint(admin)
    services.document_save(ADMIN, "global", DraftSpec(skills={"circuit_breaker": {"window_s": 4}}))
    answer = admin.post("/studio/review/", {"fingerprint": seen})
    assert answer.status_code == 409
    assert "Nothing was published" in answer.content.decode()
    assert not PolicyRevision.objects.exists()


def test_what_does_not_compile_is_told_and_changes_nothing(admin: Client) -> None:
    publish({"geo_residency": {"mode": "enforce"}})
    tenant = make_tenant("Aurora")
    scope = f"tenants/{tenant.id}"
    services.document_save(ADMIN, scope, DraftSpec(skills={"geo_residency": {"mode": "off"}}))
    versions = SnapshotRecord.objects.count()
    answer = admin.post("/studio/review/", {"fingerprint": fingerprint(admin)})
    html = answer.content.decode()
    assert answer.status_code == 422
    assert "It does not compile, so nothing was changed" in html
    assert "tenant Aurora" in html
    assert (PolicyRevision.objects.count(), SnapshotRecord.objects.count()) == (1, versions)


def test_setting_no_restriction_shows_in_the_review(admin: Client) -> None:
    publish({"geo_residency": {"ramp_percent": 100}})
    services.document_save(
        ADMIN,
        "global",
        DraftSpec(skills={"geo_residency": {"ramp_percent": 100, "allowed_regions": None}}),
    )
    assert "no restriction" in admin.get("/studio/review/").content.decode()


def test_a_note_with_control_characters_is_refused_beside_the_field(admin: Client) -> None:
    services.document_save(ADMIN, "global", DraftSpec(skills={"circuit_breaker": {"window_s": 3}}))
    values = {"fingerprint": fingerprint(admin), "note": "a\u202eb"}
    answer = admin.post("/studio/review/", values)
    assert answer.status_code == 422
    assert "control or invisible" in answer.content.decode()
    assert not PolicyRevision.objects.exists()


def test_a_roll_back_asks_first_and_is_a_new_revision(admin: Client) -> None:
    publish({"circuit_breaker": {"window_s": 3}})
    publish({"circuit_breaker": {"window_s": 4}})
    question = admin.get("/versions/1/rollback/").content.decode()
    assert "1 field changes" in question
    assert PolicyRevision.objects.count() == 2
    assert admin.post("/versions/1/rollback/")["Location"] == "/versions/3/"
    assert PolicyRevision.objects.get(pk=3).documents == PolicyRevision.objects.get(pk=1).documents
    assert PolicyDraft.objects.get().skills == {"circuit_breaker": {"window_s": 3}}


# ------------------------------------------------------------------------------------------ workers


def report(identifier: str, version: int, state: str = "ack", age_ms: int = 0) -> None:
    body = {
        "id": identifier, "build": "1", "pid": 1, "desired_version": version, "actual_version": version,
        "state": state, "reason": "schema_newer" if state == "nack" else "", "ack_ms": 12.0,
        "compile_ms": 3.0, "heartbeat_ms": int(time.time() * 1000) - age_ms, "requests_total": 0, "in_flight": 0,
    }  # fmt: skip
    broker.client().hset(wire.WORKERS_KEY, identifier, orjson.dumps(body))


def test_the_table_asks_again_until_every_worker_has_the_version(admin: Client) -> None:
    publish({"circuit_breaker": {"window_s": 3}})
    version = SnapshotRecord.objects.count()
    report("gw-1", version)
    report("gw-2", version - 1, "nack")
    html = admin.get("/versions/workers/").content.decode()
    assert 'hx-trigger="every 1s"' in html
    assert "1 of 2 workers" in html
    assert "schema_newer" in html
    report("gw-2", version)
    html = admin.get("/versions/workers/").content.decode()
    assert "hx-trigger" not in html
    assert f"All 2 workers run version {version}." in html


def test_a_silent_worker_is_unknown_not_up_to_date(admin: Client) -> None:
    publish({"circuit_breaker": {"window_s": 3}})
    report("gw-1", SnapshotRecord.objects.count(), age_ms=12_000)
    html = admin.get("/versions/workers/").content.decode()
    assert "Unknown" in html
    assert "0 of 1 worker on" in html
