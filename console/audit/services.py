"""Writing the audit log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db import transaction

from console.actor import Actor
from console.audit.models import AuditEntry


@dataclass(frozen=True, slots=True)
class Subject:
    """What was changed, and whose it is."""

    type: str
    id: str
    tenant_id: str = ""


@dataclass(frozen=True, slots=True)
class Change:
    """State before and after, as the API shows it: those views hold no secret. None: there was or is none."""

    before: dict[str, Any] | None = None
    after: dict[str, Any] | None = None
    reason: str = ""


def entry_create(actor: Actor, action: str, subject: Subject, change: Change) -> AuditEntry:
    """Must run in the transaction of the change, so that neither can stand without the other."""
    if not transaction.get_connection().in_atomic_block:
        raise RuntimeError(f"{action}: an audit line is written inside the change's transaction")
    return AuditEntry.objects.create(
        actor=actor.name,
        role=actor.role,
        action=action,
        object_type=subject.type,
        object_id=subject.id,
        tenant_id=subject.tenant_id,
        before=change.before,
        after=change.after,
        reason=change.reason,
        request_id=actor.request_id,
        ip=actor.ip,
    )
