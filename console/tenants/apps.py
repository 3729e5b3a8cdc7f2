"""Django's entry for the app."""

from __future__ import annotations

from django.apps import AppConfig


class TenantsConfig(AppConfig):
    name = "console.tenants"
    label = "tenants"
