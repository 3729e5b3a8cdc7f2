"""Sockets of telemetry; `console.asgi` mounts them behind the checks of origin and session."""

from __future__ import annotations

from typing import Any

from django.urls import path

from telemetry.consumers import LiveConsumer

_live: Any = LiveConsumer.as_asgi()
websocket_urlpatterns: list[Any] = [path("ws/live/", _live)]
