"""Django's entry for the app; tells telemetry who may watch and how the live page is drawn."""

from __future__ import annotations

from django.apps import AppConfig


class FleetConfig(AppConfig):
    name = "console.fleet"
    label = "fleet"

    def ready(self) -> None:
        from console.fleet.live import access_of, render_regions
        from telemetry.hooks import hooks

        hooks.register_live(access_of, render_regions)
