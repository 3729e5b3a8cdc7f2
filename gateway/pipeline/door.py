"""The direct handler behind the hot routes (`server.direct.DirectHandler`)."""

from __future__ import annotations

from typing import Final

from gateway.pipeline.context import Call
from gateway.pipeline.engine import Engine
from gateway.pipeline.relay import Relay
from gateway.protocols.dialects import DIALECTS
from gateway.protocols.errors import Refused
from gateway.server.exchange import Exchange

HOT_ROUTES: Final = frozenset(DIALECTS)


class HotDoor:
    """Stateless; one a worker."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @property
    def routes(self) -> frozenset[bytes]:
        return HOT_ROUTES

    def identify(self, exchange: Exchange, /) -> Call:
        return self._engine.identify(exchange)

    def handle(self, exchange: Exchange, /) -> None:
        call: Call = exchange.identity
        exchange.identity = None
        call.dialect = DIALECTS[exchange.raw_path]
        Relay(self._engine, exchange, call).start()

    def render_refusal(self, refused: Refused, exchange: Exchange | None, /) -> bytes:
        call = exchange.identity if exchange is not None else None
        self._engine.metrics.refusals[refused.code] += 1
        return self._engine.render(refused, call if isinstance(call, Call) else None)
