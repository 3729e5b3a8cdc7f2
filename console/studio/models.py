"""Drafts that are edited, revisions that are frozen, snapshots that are sent."""

from __future__ import annotations

from django.db import models
from django.utils import timezone


class PolicyDraft(models.Model):
    """What is being edited for one scope. `edition` rises with each save and is the ETag of the management API."""

    scope = models.CharField(max_length=200, primary_key=True)
    skills = models.JSONField(default=dict)
    edition = models.PositiveBigIntegerField(default=1)
    updated_by = models.CharField(max_length=200)
    updated_at = models.DateTimeField(auto_now=True)

    def __str__(self) -> str:
        return self.scope


class PolicyRevision(models.Model):
    """Published documents of every scope, never altered. A roll back is a new revision with old documents."""

    number = models.PositiveBigIntegerField(primary_key=True)
    documents = models.JSONField()
    """List of `{"scope", "skills"}`, ordered by scope."""
    note = models.TextField(blank=True)
    author = models.CharField(max_length=200)
    restored_from = models.ForeignKey("self", on_delete=models.PROTECT, null=True, related_name="+")
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["-number"]

    def __str__(self) -> str:
        return f"revision {self.number}"


class SnapshotRecord(models.Model):
    """One snapshot as it was sent. `version` only rises; old ones may be pruned, none is altered."""

    version = models.PositiveBigIntegerField(primary_key=True)
    sha256 = models.CharField(max_length=64)
    envelope = models.BinaryField()
    policy_revision = models.PositiveBigIntegerField()
    reason = models.CharField(max_length=300)
    author = models.CharField(max_length=200)
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["-version"]

    def __str__(self) -> str:
        return f"snapshot {self.version}"
