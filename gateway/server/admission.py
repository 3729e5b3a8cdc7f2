"""What happens to a request between its head and its body, for every connection of a worker."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from gateway.protocols.errors import Refused, render_openai
from gateway.server import headers as rules
from gateway.server.direct import DirectHandler
from gateway.server.exchange import Exchange
from gateway.server.http_exchange import HttpExchange
from gateway.server.limits import ServerLimits

_MAX_USUAL: Final = 64
_UNUSUAL: Final = frozenset((b"content-encoding", b"expect", b"transfer-encoding"))


class Admission:
    """Reads heads, chooses the door, has the caller identified. `direct` None: every route is ASGI."""

    __slots__ = ("_direct", "_limits", "_routes", "_usual")

    def __init__(self, direct: DirectHandler | None, limits: ServerLimits) -> None:
        self._direct = direct
        self._limits = limits
        self._routes = direct.routes if direct is not None else frozenset[bytes]()
        self._usual: set[tuple[bytes | None, bytes | None]] = set()
        """Host and media type of hot requests whose heads passed every check: the next such head need not be read
        so closely."""

    def read_head(self, exchange: HttpExchange, parser: Any) -> None:
        """Called once, when the headers are complete.

        What makes the connection unusable is raised; a request refused for other reasons gets its `refusal`.
        """
        if parser.should_upgrade():
            # Otherwise the parser reports a complete message without its body, then raises: two answers.
            raise Refused("upgrade_refused")
        limits = self._limits
        rules.read_fields(exchange, limits.header_bytes, limits.header_count)
        exchange.size = 0  # from here on it counts the body
        exchange.method = parser.get_method()
        # Only true here: the parser forgets its flags at the end of the message.
        exchange.keep_alive = parser.should_keep_alive()
        singletons = exchange.singletons
        version = parser.get_http_version()
        key = singletons.get(b"host"), singletons.get(b"content-type")
        plain = version == "1.1" and _UNUSUAL.isdisjoint(singletons)
        usual = plain and key in self._usual
        if usual:
            rules.check_length(singletons.get(b"content-length"), limits.body_bytes)
        else:
            self._read_closely(exchange, version)
        try:
            self._admit(exchange, usual=usual)
        except Refused as refused:
            exchange.refusal = self.render(refused, exchange)
        else:
            # The port in Host is the client's choice: no unbounded memory.
            if plain and exchange.direct and len(self._usual) < _MAX_USUAL:
                self._usual.add(key)

    def _read_closely(self, exchange: HttpExchange, version: str) -> None:
        singletons = exchange.singletons
        if version != "1.1":
            if version != "1.0" or b"transfer-encoding" in singletons:
                raise Refused("http_version_not_supported")
            exchange.http_10 = True
            exchange.keep_alive = False
        rules.check_host(singletons, self._limits.allowed_hosts)
        rules.check_framing(singletons, self._limits.body_bytes)
        exchange.expects = not exchange.http_10 and rules.expects_continue(singletons)

    def handle(self, exchange: HttpExchange) -> None:
        assert self._direct is not None
        self._direct.handle(exchange)

    def render(self, refused: Refused, exchange: Exchange | None = None) -> bytes:
        if self._direct is not None:
            return self._direct.render_refusal(refused, exchange)
        return render_openai(refused, "", None)

    def _admit(self, exchange: HttpExchange, *, usual: bool) -> None:
        """Choose the door, and let nobody upload a body before they are known."""
        target = exchange.target
        direct = self._direct
        if target in self._routes:
            exchange.raw_path = target
        else:
            exchange.raw_path, exchange.query = rules.split_target(target)
            if exchange.method not in rules.METHODS:
                raise Refused("not_implemented")
        if direct is None or exchange.raw_path not in self._routes:
            return
        if exchange.method != b"POST":
            raise Refused("method_not_allowed", headers=((b"allow", b"POST"),))
        exchange.direct = True
        try:
            exchange.identity = direct.identify(exchange)
        except Refused:
            raise
        except Exception as error:  # noqa: BLE001 - out of the parser it would cost a second answer
            asyncio.get_running_loop().call_exception_handler(
                {"message": "identifying a caller failed", "exception": error}
            )
            raise Refused("internal_error") from None
        if not usual:
            rules.check_json(exchange.singletons)
