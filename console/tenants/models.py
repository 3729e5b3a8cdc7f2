"""Tenants: who owns keys, budgets and policies."""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import models

from console.ids import IdField


class TenantState(models.TextChoices):
    ACTIVE = "active", "Active"
    SUSPENDED = "suspended", "Suspended"


class Tenant(models.Model):
    id = IdField("ten")
    name = models.CharField(max_length=120, unique=True)
    state = models.CharField(max_length=20, choices=TenantState.choices, default=TenantState.ACTIVE)
    """The keys of a suspended tenant are in no snapshot."""
    allowed_regions = ArrayField(models.CharField(max_length=40), null=True, blank=True)
    """The geo-fence. None: no fence; empty: no region at all."""
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=models.Q(state__in=TenantState.values), name="tenant_state"
            ),
        ]

    def __str__(self) -> str:
        return self.name
