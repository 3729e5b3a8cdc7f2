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

_MAX_KNOWN_HOSTS: Final = 64


class Admission:
    """Reads heads, chooses the door, has the caller identified. `direct` None: every route is ASGI."""

    __slots__ = ("_direct", "_known_hosts", "_limits", "_routes")

    def __init__(self, direct: DirectHandler | None, limits: ServerLimits) -> None:
        self._direct = direct
        self._limits = limits
        self._routes = direct.routes if direct is not None else frozenset[bytes]()
        self._known_hosts: set[bytes] = set()

    def read_head(self, exchange: HttpExchange, parser: Any) -> None:
        """Called once, when the headers are complete.

        What makes the connection unusable is raised; a request refused for other reasons gets its `refusal`.
        """
        if parser.should_upgrade():
            # Otherwise the parser reports a complete message without its body, then raises: two answers.
            raise Refused("upgrade_refused")
        version = parser.get_http_version()
        if version != "1.1":
            if version != "1.0" or b"transfer-encoding" in exchange.singletons:
                raise Refused("http_version_not_supported")
            exchange.http_10 = True
        # Only true here: the parser forgets its flags at the end of the message.
        exchange.keep_alive = parser.should_keep_alive() and not exchange.http_10
        exchange.method = parser.get_method()
        singletons = exchange.singletons
        self._check_host(singletons)
        rules.check_framing(singletons, self._limits.body_bytes)
        exchange.expects = not exchange.http_10 and rules.expects_continue(singletons)
        try:
            self._admit(exchange)
        except Refused as refused:
            exchange.refusal = self.render(refused, exchange)

    def handle(self, exchange: HttpExchange) -> None:
        assert self._direct is not None
        self._direct.handle(exchange)

    def render(self, refused: Refused, exchange: Exchange | None = None) -> bytes:
        if self._direct is not None:
            return self._direct.render_refusal(refused, exchange)
        return render_openai(refused, "", None)

    def _admit(self, exchange: HttpExchange) -> None:
        """Choose the door, and let nobody upload a body before they are known."""
        target = exchange.target
        if target in self._routes:
            exchange.raw_path = target
        else:
            exchange.raw_path, exchange.query = rules.split_target(target)
            if exchange.method not in rules.METHODS:
                raise Refused("not_implemented")
        if self._direct is None or exchange.raw_path not in self._routes:
            return
        if exchange.method != b"POST":
            raise Refused("method_not_allowed", headers=((b"allow", b"POST"),))
        exchange.direct = True
        exchange.identity = self._identify(exchange, self._direct)
        rules.check_json(exchange.singletons)

    def _identify(self, exchange: HttpExchange, direct: DirectHandler) -> Any:
        try:
            return direct.identify(exchange)
        except Refused:
            raise
        except Exception as error:  # noqa: BLE001 - out of the parser it would cost a second answer
            asyncio.get_running_loop().call_exception_handler(
                {"message": "identifying a caller failed", "exception": error}
            )
            raise Refused("internal_error") from None

    def _check_host(self, singletons: dict[bytes, bytes]) -> None:
        host = singletons.get(b"host", b"")
        known = self._known_hosts
        if host not in known:
            rules.check_host(singletons, self._limits.allowed_hosts)
            if (
                len(known) < _MAX_KNOWN_HOSTS
            ):  # the port is the client's choice: no unbounded memory
                known.add(host)
