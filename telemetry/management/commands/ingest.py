"""`manage.py ingest`: writes the ledger from the usage stream, until it is told to stop."""

from __future__ import annotations

import signal
import threading
from typing import Any

import redis
from django.conf import settings
from django.core.management.base import BaseCommand

from telemetry.clock import SystemClock
from telemetry.ingest import Ingest


class Command(BaseCommand):
    help = "Write usage events into the ledger and keep the live page beating."

    def handle(self, *_args: Any, **_options: Any) -> None:
        stop = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
        client = redis.Redis.from_url(
            settings.REDIS_URL, socket_timeout=5.0, socket_connect_timeout=2.0
        )
        Ingest(client, SystemClock()).run(stop)
