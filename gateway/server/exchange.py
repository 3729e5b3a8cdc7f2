"""One request and the way back to its client, as a hot route sees it. All calls are synchronous callbacks."""

from __future__ import annotations

from typing import Any, Protocol


class Listener(Protocol):
    """What a handler wants to hear about its client. Called at most until the exchange is done."""

    def client_gone(self) -> None:
        """The client left before its answer was complete. Nothing can be sent any more."""
        ...

    def client_paused(self) -> None:
        """The client reads too slowly: stop producing until `client_resumed`."""
        ...

    def client_resumed(self) -> None: ...


class Exchange:
    """The base of both doors: `GatewayProtocol` (own protocol class) and `AsgiDoor` (plain ASGI).

    An answer is either one `send_all`, or `send_head`, any number of `send_chunk`, then `finish` (complete) or `abort`
    (the client sees a broken body). Each ends the exchange; later calls are ignored.
    """

    __slots__ = (
        "body",
        "client",
        "done",
        "headers",
        "identity",
        "listener",
        "method",
        "query",
        "raw_path",
        "singletons",
        "started",
    )

    def __init__(self) -> None:
        self.method = b""
        self.raw_path = b""
        self.query = b""
        self.headers: list[tuple[bytes, bytes]] = []
        """Names in lower case, in order. Names with an underscore were dropped."""
        self.singletons: dict[bytes, bytes] = {}
        """Headers that may appear once (`headers.SINGLETONS`), checked for that."""
        self.body = b""
        """Complete when `DirectHandler.handle` is called; empty in `identify`."""
        self.identity: Any = None
        """What `DirectHandler.identify` returned."""
        self.listener: Listener | None = None
        self.client = ""
        """Address of the peer, without port; empty when unknown."""
        self.started = False
        self.done = False

    def send_all(self, response: bytes) -> None:
        """A whole HTTP response with its `content-length`, in one write."""
        raise NotImplementedError

    def send_head(self, head: bytes) -> None:
        """Status line and headers with `transfer-encoding: chunked`, ending in a blank line."""
        raise NotImplementedError

    def send_chunk(self, data: bytes) -> None:
        """A piece of the body; never empty."""
        raise NotImplementedError

    def finish(self) -> None:
        raise NotImplementedError

    def abort(self) -> None:
        """End a started answer so that the client can tell it is not complete."""
        raise NotImplementedError
