"""Budgets of tenants and keys."""

from __future__ import annotations

from typing import Literal

from django.db import models

from console.ids import IdField


class Window(models.TextChoices):
    DAY = "day", "Day"
    WEEK = "week", "Week"
    MONTH = "month", "Month"
    TOTAL = "total", "In total"


class BudgetMode(models.TextChoices):
    HARD = "hard", "Hard: refuse beyond it"
    SOFT = "soft", "Soft: warn beyond it"


class Budget(models.Model):
    """A limit in micro-dollars for one calendar window. `key` is empty when the whole tenant is bound."""

    id = IdField("bud")
    name = models.CharField(max_length=120)
    tenant = models.ForeignKey("tenants.Tenant", on_delete=models.PROTECT, related_name="budgets")
    key = models.ForeignKey(
        "keys.ApiKey", on_delete=models.PROTECT, related_name="budgets", null=True, blank=True
    )
    limit_microusd = models.PositiveBigIntegerField()
    window = models.CharField(max_length=10, choices=Window.choices)
    timezone = models.CharField(max_length=64, default="UTC")
    """IANA zone in which the window begins."""
    mode = models.CharField(max_length=10, choices=BudgetMode.choices, default=BudgetMode.HARD)
    archived_at = models.DateTimeField(null=True, blank=True)
    """Set when it no longer binds; its past stays explainable."""
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=models.Q(window__in=Window.values), name="budget_window"
            ),
            models.CheckConstraint(
                condition=models.Q(mode__in=BudgetMode.values), name="budget_mode"
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def scope(self) -> Literal["tenant", "key"]:
        return "key" if self.key_id else "tenant"

    @property
    def subject(self) -> str:
        return str(self.key_id or self.tenant_id)
