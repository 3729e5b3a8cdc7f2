"""Django's entry for the app; tells telemetry whom a budget binds."""

from __future__ import annotations

from django.apps import AppConfig


class BudgetsConfig(AppConfig):
    name = "console.budgets"
    label = "budgets"

    def ready(self) -> None:
        from console.budgets.selectors import budget_subject
        from telemetry.hooks import hooks

        hooks.register_budget_lookup(budget_subject)
