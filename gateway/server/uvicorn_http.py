"""uvicorn's own httptools protocol with the guards it lacks: the fallback `ACE_HTTP=uvicorn`.

Behind it stands `asgi_door.AsgiDoor`, which checks heads; here is only what an application cannot see any more.
"""

from __future__ import annotations

import sys

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from gateway.protocols.errors import Refused, render_openai
from gateway.server.http_exchange import with_close
from gateway.server.limits import ServerLimits

_LIMITS = ServerLimits()


class GuardedHttp(HttpToolsProtocol):
    _head_complete = False
    _head_bytes = 0
    _answered = False

    def data_received(self, data: bytes) -> None:
        if self._answered:
            return
        if not self._head_complete:
            self._head_bytes += len(data)
        super().data_received(data)
        self._check_head()

    def _check_head(self) -> None:
        """A head that never ends never reaches `on_headers_complete`."""
        largest = _LIMITS.header_bytes + _LIMITS.url_bytes
        if self._head_bytes > largest and not self._head_complete and not self._answered:
            self._refuse(Refused("headers_too_large"))

    def on_message_begin(self) -> None:
        self._head_complete = False
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        if not self.url.startswith(b"/") or b"#" in url:
            raise Refused(
                "invalid_path"
            )  # uvicorn would drop the host of one and the rest of the other
        if len(self.url) > _LIMITS.url_bytes:
            raise Refused("uri_too_long")

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._head_complete:  # a trailer would join the list the application already read
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._head_complete = True
        self._head_bytes = 0
        if self.parser.should_upgrade():
            raise Refused("upgrade_refused")
        if len(self.pipeline) >= _LIMITS.pipelined:
            raise Refused("too_many_pipelined")
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        """Called by uvicorn while it handles what the parser raised."""
        error = sys.exception()
        cause = error.__context__ if error is not None else None
        self._refuse(cause if isinstance(cause, Refused) else Refused("malformed_http"))

    def _refuse(self, refused: Refused) -> None:
        self._answered = True
        if self.cycle is None or self.cycle.response_complete:  # type: ignore[redundant-expr]
            self.transport.write(with_close(render_openai(refused, "", None)))
        self.transport.close()
