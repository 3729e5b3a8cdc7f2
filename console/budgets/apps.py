"""Django's entry for the app."""

from __future__ import annotations

from django.apps import AppConfig


class BudgetsConfig(AppConfig):
    name = "console.budgets"
    label = "budgets"
