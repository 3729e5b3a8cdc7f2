"""API keys of applications. The plain key is never stored: a lost database opens no door."""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import models

from console.ids import IdField


class ApiKey(models.Model):
    id = IdField("key")
    tenant = models.ForeignKey("tenants.Tenant", on_delete=models.PROTECT, related_name="keys")
    name = models.CharField(max_length=120)
    prefix = models.CharField(max_length=12)
    last4 = models.CharField(max_length=4)
    """Of the newest digest; enough to recognise a key in a list."""
    allowed_models = ArrayField(models.CharField(max_length=120), null=True, blank=True)
    """None: every model; empty: none."""
    requests_per_minute = models.PositiveBigIntegerField(null=True, blank=True)
    tokens_per_minute = models.PositiveBigIntegerField(null=True, blank=True)
    concurrency = models.PositiveBigIntegerField(null=True, blank=True)
    """For all three, None is unlimited and 0 refuses everything."""
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    created_by = models.CharField(max_length=200)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            # A revoked key keeps its name for the records and gives it free for its successor.
            models.UniqueConstraint(
                fields=["tenant", "name"],
                condition=models.Q(revoked_at=None),
                name="key_name_in_tenant",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} (…{self.last4})"


class KeyDigest(models.Model):
    """HMAC-SHA256 of one secret of a key. A rotated key keeps its old digest until `not_after`."""

    key = models.ForeignKey(ApiKey, on_delete=models.CASCADE, related_name="digests")
    digest = models.CharField(max_length=64, unique=True)
    not_after = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"{self.key_id} {self.digest[:8]}"
