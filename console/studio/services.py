"""Drafts, publishing, rolling back, and the snapshot that each change of anything makes."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any, Final

import redis
from django.conf import settings
from django.db import connection, transaction
from django.utils import timezone
from pydantic import Field

from console.actor import SYSTEM, Actor
from console.audit.services import Change, Subject, entry_create
from console.errors import Conflict, InputError, Missing, Problem
from console.keys.feed import revocations_announce
from console.keys.models import ApiKey, KeyDigest
from console.locks import AdvisoryLock
from console.providers.models import Pool
from console.specs import Spec
from console.studio import feed
from console.studio.inventory import inventory_read
from console.studio.models import PolicyDraft, PolicyRevision, SnapshotRecord
from console.studio.selectors import (
    draft_documents,
    draft_state,
    revision_documents,
    revision_newest,
    version_newest,
)
from console.tenants.models import Tenant
from policies import compiler
from policies.merge import parse_document
from policies.schema.sealing import MAX_SNAPSHOT_BYTES, seal
from policies.schema.snapshot import PolicyDocument
from policies.schema.units import Slug

log = logging.getLogger(__name__)

SNAPSHOTS_KEPT: Final = 50
REVOCATIONS_REPEATED: Final = timedelta(days=1)
_MAX_FIELDS: Final = 200


class DraftSpec(Spec):
    """Replaces the document of one scope. Only fields that are set here stop being inherited."""

    skills: dict[Slug, Annotated[dict[str, Any], Field(max_length=_MAX_FIELDS)]]


class PublishRefused(InputError):  # noqa: N818 - reads as the state it is
    """The documents do not compile; nothing was changed."""

    code = "does_not_compile"


@dataclass(frozen=True, slots=True)
class Publication:
    version: int
    """Of the snapshot that the workers load."""
    revision: int
    """Of the policy documents inside."""


# ---------------------------------------------------------------------------------------- drafts


@transaction.atomic
def document_save(
    actor: Actor, scope: str, spec: DraftSpec, edition: int | None = None
) -> PolicyDraft:
    """Keeps the draft of one scope; nothing takes effect before `publish`.

    With `edition` it must be the one that was read, else Conflict `stale`: two people must not overwrite each other.
    Raises Missing for a scope of nothing, InputError for a field that the skill's schema refuses.
    """
    _scope_check(scope)
    _fields_check(scope, spec)
    draft = PolicyDraft.objects.select_for_update().filter(pk=scope).first()
    stands = draft.edition if draft else 0
    if edition is not None and edition != stands:
        raise Conflict(f"{scope} was changed meanwhile (edition {stands}).", code="stale")
    before = None if draft is None else draft_state(draft)
    draft = draft or PolicyDraft(scope=scope)
    if before is not None and draft.skills == spec.skills:
        return draft
    draft.skills, draft.edition, draft.updated_by = spec.skills, stands + 1, actor.name
    draft.save()
    change = Change(before, draft_state(draft))
    entry_create(actor, "document_save", Subject("policy", scope, _tenant_of(scope)), change)
    return draft


def document_problems(scope: str, skills: dict[str, Any]) -> list[Problem]:
    """What the skills' schemas say of one document, without saving it."""
    _, found = parse_document(PolicyDocument.model_construct(scope=scope, skills=skills))
    return [Problem(each.pointer, each.message, each.code, scope) for each in found]


def _fields_check(scope: str, spec: DraftSpec) -> None:
    problems = document_problems(scope, spec.skills)
    if problems:
        raise InputError("The settings are not valid: see `errors`.", problems=problems)


def _scope_check(scope: str) -> None:
    kind, _, name = scope.partition("/")
    found = {
        "global": lambda: not name,
        "tenants": lambda: Tenant.objects.filter(pk=name).exists(),
        "keys": lambda: ApiKey.objects.filter(pk=name).exists(),
        "models": lambda: Pool.objects.filter(model=name).exists(),
    }.get(kind)
    if found is None or "\0" in scope or not found():
        raise Missing(f"There is no scope {scope!r}.", code="unknown_scope")


def _tenant_of(scope: str) -> str:
    kind, _, name = scope.partition("/")
    if kind == "keys":
        return ApiKey.objects.filter(pk=name).values_list("tenant_id", flat=True).first() or ""
    return name if kind == "tenants" else ""


# ---------------------------------------------------------------------------------------- publishing


@transaction.atomic
def publish(actor: Actor, note: str = "") -> Publication:
    """Freezes all drafts as a revision and sends it. Raises PublishRefused with every problem; then nothing changed."""
    _lock()
    return _revision_publish(actor, draft_documents(), note, restored_from=None)


@transaction.atomic
def rollback(actor: Actor, revision: int, note: str = "") -> Publication:
    """The documents of an earlier revision, as a new one. Drafts go back as well, so the next publish keeps them.

    Raises Missing for an unknown revision.
    """
    _lock()
    old = PolicyRevision.objects.filter(pk=revision).first()
    if old is None:
        raise Missing("No such revision.")
    documents = revision_documents(old)
    _drafts_reset(actor, documents)
    return _revision_publish(actor, documents, note, restored_from=old)


def _revision_publish(
    actor: Actor,
    documents: Sequence[PolicyDocument],
    note: str,
    restored_from: PolicyRevision | None,
) -> Publication:
    newest = revision_newest()
    revision = PolicyRevision.objects.create(
        number=(newest.number if newest else 0) + 1,
        documents=[document.model_dump(mode="json") for document in documents],
        note=note,
        author=actor.name,
        restored_from=restored_from,
    )
    record = snapshot_publish(actor, note or f"revision {revision.number} published")
    action = "publish" if restored_from is None else "rollback"
    after = {
        "revision": revision.number,
        "version": record.version,
        "scopes": [document.scope for document in documents],
        "restored_from": restored_from.number if restored_from else None,
    }
    subject = Subject("revision", str(revision.number))
    entry_create(actor, action, subject, Change(after=after, reason=note))
    return Publication(record.version, revision.number)


def _drafts_reset(actor: Actor, documents: Iterable[PolicyDocument]) -> None:
    wanted = {document.scope: document.skills for document in documents}
    stands = {draft.scope: draft for draft in PolicyDraft.objects.select_for_update()}
    for scope in wanted.keys() | stands.keys():
        draft = stands.get(scope) or PolicyDraft(scope=scope, edition=0)
        skills = wanted.get(scope, {})
        if draft.skills != skills or scope not in stands:
            draft.skills, draft.edition, draft.updated_by = skills, draft.edition + 1, actor.name
            draft.save()


# ---------------------------------------------------------------------------------------- snapshots


def on_inventory_changed(actor: Actor, reason: str, **_: Any) -> None:
    """Receiver of `console.changes`: runs in the transaction of the change and undoes it when it does not compile."""
    snapshot_publish(actor, reason)


@transaction.atomic
def snapshot_publish(actor: Actor, reason: str, *, above: int = 0) -> SnapshotRecord:
    """Compiles what stands in the database now, stores it, and announces it after the commit.

    One at a time: the lock is held until the commit, so a version is given once, in the order in which the changes
    become visible. `above` skips numbers that workers have seen but this database has not (a restored backup).
    Raises PublishRefused.
    """
    _lock()
    version = max(version_newest(), above) + 1
    newest = revision_newest()
    snapshot = _compile(version, newest)
    envelope = seal(snapshot, settings.ACE_SNAPSHOT_SECRET)
    if len(envelope) > MAX_SNAPSHOT_BYTES:
        raise PublishRefused(
            "The snapshot is larger than workers accept.", code="snapshot_too_large"
        )
    record = SnapshotRecord.objects.create(
        version=version,
        sha256=_body_hash(envelope),
        envelope=envelope,
        policy_revision=snapshot.policy_revision,
        reason=reason[:300],
        author=actor.name,
    )
    transaction.on_commit(lambda: _announce(version, envelope), robust=True)
    return record


def _compile(version: int, revision: PolicyRevision | None) -> Any:
    try:
        return compiler.compile_snapshot(
            inventory_read(),
            revision_documents(revision),
            version=version,
            policy_revision=revision.number if revision else 0,
            created_at_ms=int(timezone.now().timestamp() * 1000),
        )
    except compiler.CompileError as error:
        problems = [Problem(p.pointer, p.message, p.code, p.scope) for p in error.problems]
        raise PublishRefused(
            "It does not compile, so nothing was changed: see `errors`.", problems=problems
        ) from None


def _announce(version: int, envelope: bytes) -> None:
    try:
        feed.snapshot_announce(version, envelope)
    except redis.RedisError as error:
        log.warning("snapshot %d is stored, not announced yet: %s", version, type(error).__name__)


def _lock() -> None:
    """Held until the transaction ends. Who holds it waits for no row of the inventory, so nothing can deadlock."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [AdvisoryLock.PUBLISH])


def _body_hash(envelope: bytes) -> str:
    """The same figure that stands in the envelope's header."""
    return hashlib.sha256(envelope.partition(b"\n")[2]).hexdigest()


# ---------------------------------------------------------------------------------------- repair


def snapshot_reannounce() -> int:
    """Makes Redis know the newest snapshot again after it was away, empty or ahead. The version it knows then.

    Run every two seconds by the beat. Raises redis.RedisError while the server is away.
    """
    there = feed.version_announced()
    newest = version_newest()
    if newest == 0 or there > newest:
        log.warning(
            "snapshot: Redis has version %d, the database %d; sending a new one", there, newest
        )
        return snapshot_publish(SYSTEM, "repair after a restore", above=there).version
    if there == newest:
        return newest
    _revocations_repeat()
    record = SnapshotRecord.objects.get(pk=newest)
    return feed.snapshot_announce(record.version, bytes(record.envelope))


def _revocations_repeat() -> None:
    since = timezone.now() - REVOCATIONS_REPEATED
    revoked = KeyDigest.objects.filter(key__revoked_at__gt=since)
    for found in revoked.select_related("key"):
        at = found.key.revoked_at or since
        revocations_announce([found.digest], int(at.timestamp() * 1000))


def snapshots_prune() -> int:
    """Keeps the newest 50: roll back works from revisions, which are all kept. Number deleted."""
    kept = SnapshotRecord.objects.order_by("-version").values_list("version", flat=True)
    oldest = kept[SNAPSHOTS_KEPT - 1 : SNAPSHOTS_KEPT].first()
    if oldest is None:
        return 0
    return SnapshotRecord.objects.filter(version__lt=oldest).delete()[0]
