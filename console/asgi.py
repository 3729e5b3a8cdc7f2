"""Entry of the console under an ASGI server: pages and API through Django, sockets through Channels."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from django.core.asgi import get_asgi_application

from console.settings.env import default_settings


def build() -> Any:
    """Django must be set up before anything of Channels that knows users is imported."""
    default_settings()
    pages = get_asgi_application()
    from channels.auth import AuthMiddlewareStack
    from channels.routing import ProtocolTypeRouter, URLRouter
    from channels.security.websocket import AllowedHostsOriginValidator

    sockets = AllowedHostsOriginValidator(AuthMiddlewareStack(URLRouter(_socket_routes())))
    return ProtocolTypeRouter({"http": pages, "websocket": sockets})


def _socket_routes() -> list[Any]:
    if find_spec("telemetry.routing") is None:
        return []
    from telemetry.routing import websocket_urlpatterns

    return list(websocket_urlpatterns)


application = build()
