"""Django's entry for the app."""

from __future__ import annotations

from django.apps import AppConfig


class SpendConfig(AppConfig):
    name = "console.spend"
    label = "spend"
