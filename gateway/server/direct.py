"""What the application offers the server for its hot routes."""

from __future__ import annotations

from typing import Any, Protocol

from gateway.protocols.errors import Refused
from gateway.server.exchange import Exchange


class DirectHandler(Protocol):
    """Serves `POST` on a fixed set of paths with callbacks. Nothing here waits.

    `identify` is called when the headers are complete and before any body is read; `handle` when the body is there.
    """

    @property
    def routes(self) -> frozenset[bytes]:
        """Raw paths, exactly as they stand in the request line."""
        ...

    def identify(self, exchange: Exchange, /) -> Any:
        """Who is calling; kept as `exchange.identity`. Raises Refused."""
        ...

    def handle(self, exchange: Exchange, /) -> None:
        """Answer `exchange`, now or later. Refused is rendered by the server if nothing was sent yet."""
        ...

    def render_refusal(self, refused: Refused, exchange: Exchange | None, /) -> bytes:
        """A whole HTTP response. `exchange` None: the request could not even be read."""
        ...
