"""What did happen: the Django app that reads events, keeps the ledger and shows it live."""

from __future__ import annotations

from django.apps import AppConfig


class TelemetryConfig(AppConfig):
    name = "telemetry"
    label = "telemetry"
