"""Reading the audit log."""

from __future__ import annotations

from django.db.models import QuerySet

from console.audit.models import AuditEntry


def entries(object_type: str = "", object_id: str = "") -> QuerySet[AuditEntry]:
    """Newest first; of one object when it is named."""
    found = AuditEntry.objects.order_by("-id")
    if object_type:
        found = found.filter(object_type=object_type)
    if object_id:
        found = found.filter(object_id=object_id)
    return found
