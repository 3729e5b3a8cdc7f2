"""The audit log: one line for every change, written in the change's own transaction and never altered."""

from __future__ import annotations

from django.db import models


class AuditEntry(models.Model):
    """A trigger refuses UPDATE and DELETE, whoever asks. `before` and `after` hold no secret."""

    at = models.DateTimeField(auto_now_add=True)
    actor = models.CharField(max_length=200)
    role = models.CharField(max_length=20)
    action = models.CharField(max_length=60)
    object_type = models.CharField(max_length=40)
    object_id = models.CharField(max_length=200)
    tenant_id = models.CharField(max_length=40, blank=True)
    before = models.JSONField(null=True)
    after = models.JSONField(null=True)
    reason = models.TextField(blank=True)
    request_id = models.CharField(max_length=40, blank=True)
    ip = models.CharField(max_length=45, blank=True)

    class Meta:
        indexes = [
            models.Index(fields=["-id"], name="audit_newest"),
            models.Index(fields=["object_type", "object_id", "-id"], name="audit_by_object"),
            models.Index(fields=["tenant_id", "-id"], name="audit_by_tenant"),
        ]

    def __str__(self) -> str:
        return f"{self.actor} {self.action} {self.object_id}"
