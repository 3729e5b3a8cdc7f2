"""Django's entry for the app."""

from __future__ import annotations

from django.apps import AppConfig


class StudioConfig(AppConfig):
    name = "console.studio"
    label = "studio"
