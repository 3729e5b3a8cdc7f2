"""The Celery application of worker and beat."""

from __future__ import annotations

from typing import Any

from celery import Celery
from celery.signals import setup_logging

from console.settings.env import default_settings

default_settings()

app = Celery("ace")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()


@setup_logging.connect
def _keep_logging(**_: Any) -> None:
    """Django has set up logging; Celery's own would say two lines for every task, and beat sends one a second."""
