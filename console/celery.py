"""The Celery application of worker and beat."""

from __future__ import annotations

from celery import Celery

from console.settings.env import default_settings

default_settings()

app = Celery("ace")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
