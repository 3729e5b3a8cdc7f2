"""Django's entry for the app."""

from __future__ import annotations

from django.apps import AppConfig


class ProvidersConfig(AppConfig):
    name = "console.providers"
    label = "providers"
