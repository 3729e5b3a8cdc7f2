"""Reading drafts, revisions, snapshots and what the workers say of themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import msgspec
import redis
from django.db.models import QuerySet
from django.utils import timezone

from console import broker
from console.accounts.permissions import visible_tenants
from console.actor import Actor
from console.errors import Unavailable
from console.studio.inventory import inventory_read
from console.studio.models import PolicyDraft, PolicyRevision, SnapshotRecord
from policies.compiler import Inventory, PolicyIndex, Problem, lint
from policies.schema import wire
from policies.schema.report import WorkerReport
from policies.schema.snapshot import PolicyDocument

SILENT_MS: Final = 10_000
"""A worker not heard of for so long is shown as unknown."""
GONE_MS: Final = 600_000
"""And after this it is no longer shown."""


def drafts(actor: Actor) -> QuerySet[PolicyDraft]:
    visible_tenants(actor, "policies.read")
    return PolicyDraft.objects.order_by("scope")


def draft_get(actor: Actor, scope: str) -> PolicyDraft:
    """An unsaved draft of edition 0 when nothing was ever set for the scope."""
    found = drafts(actor).filter(pk=scope).first()
    return found or PolicyDraft(scope=scope, skills={}, edition=0)


def draft_documents() -> list[PolicyDocument]:
    """What the next publish will send, ordered by scope; scopes that set nothing are left out."""
    return [
        PolicyDocument(scope=draft.scope, skills=draft.skills)
        for draft in PolicyDraft.objects.order_by("scope")
        if draft.skills
    ]


def draft_index() -> PolicyIndex:
    """For the origin of each field in the studio. Raises ValueError when a draft does not hold."""
    return PolicyIndex.of(draft_documents())


def draft_problems() -> list[Problem]:
    """Errors first: what would stop a publish now, and what a person should know before it."""
    return lint(inventory_read(), draft_documents())


def draft_editions() -> str:
    """Editions of all drafts in one text: it changes whenever somebody saves."""
    rows = PolicyDraft.objects.order_by("scope").values_list("scope", "edition")
    return ",".join(f"{scope}={edition}" for scope, edition in rows)


def inventory() -> Inventory:
    return inventory_read()


def revision_newest() -> PolicyRevision | None:
    return PolicyRevision.objects.order_by("-number").first()


def revision_documents(revision: PolicyRevision | None) -> list[PolicyDocument]:
    if revision is None:
        return []
    return [PolicyDocument.model_validate(document) for document in revision.documents]


def revisions(actor: Actor) -> QuerySet[PolicyRevision]:
    visible_tenants(actor, "policies.read")
    return PolicyRevision.objects.order_by("-number")


def drafts_differ() -> bool:
    """Whether a publish would change anything."""
    wanted = [document.model_dump(mode="json") for document in draft_documents()]
    newest = revision_newest()
    return wanted != ([] if newest is None else newest.documents)


def snapshots() -> QuerySet[SnapshotRecord]:
    """Newest first, without their bodies."""
    return SnapshotRecord.objects.defer("envelope").order_by("-version")


def version_newest() -> int:
    """0: there is no snapshot yet."""
    return snapshots().values_list("version", flat=True).first() or 0


@dataclass(frozen=True, slots=True)
class Worker:
    """One row of the version table."""

    id: str
    build: str
    desired_version: int
    """The newest snapshot there is, which the worker should have."""
    actual_version: int
    state: Literal["ack", "nack", "compiling", "unknown"]
    reason: str
    ack_ms: float | None
    compile_ms: float | None
    heartbeat_age_ms: int
    requests_total: int
    in_flight: int
    degraded: tuple[str, ...]

    @property
    def converged(self) -> bool:
        return self.state == "ack" and self.actual_version == self.desired_version


def workers() -> list[Worker]:
    """By id. Raises Unavailable when Redis is away: then nothing is known, which is not the same as no workers."""
    try:
        reports: Any = broker.client().hvals(wire.WORKERS_KEY)
    except redis.RedisError:
        raise Unavailable(
            "The workers' reports cannot be read: Redis does not answer.", code="redis_unreachable"
        ) from None
    now_ms = int(timezone.now().timestamp() * 1000)
    desired = version_newest()
    decoder = msgspec.json.Decoder(WorkerReport)
    found = [_worker(report, desired, now_ms) for report in _decoded(decoder, reports)]
    return sorted(
        (each for each in found if each.heartbeat_age_ms < GONE_MS), key=lambda each: each.id
    )


def workers_converged(found: Sequence[Worker]) -> bool:
    """All that live have the newest snapshot; false when none lives."""
    living = [each for each in found if each.state != "unknown"]
    return bool(living) and all(each.converged for each in living)


def _decoded(
    decoder: msgspec.json.Decoder[WorkerReport], reports: Sequence[bytes]
) -> list[WorkerReport]:
    """A report of another build that cannot be read is left out, not an error page for all."""
    found = []
    for report in reports:
        try:
            found.append(decoder.decode(report))
        except msgspec.MsgspecError:
            continue
    return found


def _worker(report: WorkerReport, desired: int, now_ms: int) -> Worker:
    age = max(0, now_ms - report.heartbeat_ms)
    return Worker(
        id=report.id,
        build=report.build,
        desired_version=max(desired, report.desired_version),
        actual_version=report.actual_version,
        state="unknown" if age > SILENT_MS else report.state,
        reason=report.reason,
        ack_ms=report.ack_ms,
        compile_ms=report.compile_ms,
        heartbeat_age_ms=age,
        requests_total=report.requests_total,
        in_flight=report.in_flight,
        degraded=report.degraded,
    )


def draft_state(draft: PolicyDraft) -> dict[str, Any]:
    """As the API shows it and the audit log keeps it."""
    return {"scope": draft.scope, "skills": draft.skills, "edition": draft.edition}
