"""What an installation starts with."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from console import broker
from console.launcher.seed import ensure_snapshot
from console.studio.models import PolicyDraft, PolicyRevision
from console.studio.selectors import draft_documents, version_newest

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _empty_broker() -> Iterator[None]:
    broker.client().flushdb()
    yield
    broker.client().flushdb()


def test_it_starts_with_gpus_being_looked_at() -> None:
    ensure_snapshot()
    assert [document.skills for document in draft_documents()] == [
        {"hardware_telemetry": {"mode": "enforce"}}
    ]
    assert PolicyRevision.objects.get().note == "Starting policy"


def test_a_second_start_publishes_nothing() -> None:
    ensure_snapshot()
    first = version_newest()
    ensure_snapshot()
    assert version_newest() == first
    assert PolicyRevision.objects.count() == 1


def test_what_somebody_wrote_before_the_first_start_is_what_starts() -> None:
    fence = {"geo_residency": {"mode": "observe"}}
    PolicyDraft.objects.create(scope="global", skills=fence, edition=1, updated_by="ada")
    ensure_snapshot()
    assert [document.skills for document in draft_documents()] == [fence]
