"""Django's entry for the app."""

from __future__ import annotations

from django.apps import AppConfig


class KeysConfig(AppConfig):
    name = "console.keys"
    label = "keys"
