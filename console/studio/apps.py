"""Django's entry for the app; from here on a change of inventory makes a snapshot."""

from __future__ import annotations

from django.apps import AppConfig


class StudioConfig(AppConfig):
    name = "console.studio"
    label = "studio"

    def ready(self) -> None:
        from console import changes
        from console.studio.services import on_inventory_changed

        changes.connect(on_inventory_changed, dispatch_uid="studio.snapshot")
