"""The front door: `build_app()` gives the data plane as an ASGI application.

Under the supervisor the hot route does not come through here but straight from the protocol class (`Gateway.door`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from gateway import settings as environment
from gateway.pipeline.door import HotDoor
from gateway.routes import Routes
from gateway.server.asgi_door import AsgiDoor
from gateway.server.limits import ServerLimits
from gateway.settings import Settings
from gateway.worker import Worker

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class Gateway:
    """One worker behind ASGI, with its lifespan."""

    def __init__(self, settings: Settings, slot_number: int) -> None:
        self.worker = Worker(settings, slot_number)
        self.door = HotDoor(self.worker.engine)
        self.limits = server_limits(settings)
        self._routes = Routes(self.worker)
        self._any_door = AsgiDoor(self._cold, self.door, self.limits)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Behind our own protocol class: heads are checked already and hot routes never get here."""
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "http":
            await self._routes(scope, send)

    async def any_server(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Behind any other ASGI server: checks heads and serves the hot route as well."""
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        else:
            await self._any_door(scope, receive, send)

    async def _cold(self, scope: Scope, _receive: Receive, send: Send) -> None:
        await self._routes(scope, send)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        await self.worker.start()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.worker.stop()
        await send({"type": "lifespan.shutdown.complete"})


def server_limits(settings: Settings) -> ServerLimits:
    hosts = frozenset(name.encode() for name in settings.allowed_hosts)
    return ServerLimits(allowed_hosts=hosts or frozenset((b"*",)))


def build_app(settings: Settings | None = None, slot_number: int = 0) -> Gateway:
    """One worker in `slot_number`. Raises SettingsError, SlotBusyError or OSError with one clear sentence."""
    return Gateway(settings or environment.load(), slot_number)
