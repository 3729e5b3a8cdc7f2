"""Every route that is not hot, as plain ASGI. What is not listed here does not exist: engines' own paths never do."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import TYPE_CHECKING, Any, Final

import orjson

from gateway.metrics import scrape
from gateway.pipeline.door import HOT_ROUTES
from gateway.pipeline.plan import ModelOffer
from gateway.protocols.errors import Refused, openai_body, response_headers
from gateway.server.exchange import Exchange
from gateway.server.headers import SINGLETONS

if TYPE_CHECKING:
    from gateway.worker import Worker

Scope = MutableMapping[str, Any]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

MODELS: Final = b"/v1/models"
JSON: Final = b"application/json"


class Routes:
    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._get = {
            b"/livez": self._livez,
            b"/readyz": self._readyz,
            b"/metrics": self._metrics,
        }

    async def __call__(self, scope: Scope, send: Send) -> None:
        try:
            status, kind, body = self._answer(scope)
        except Refused as refused:
            await self._refuse(refused, send)
            return
        await _send(send, status, [(b"content-type", kind)], _shown(scope, body))

    def _answer(self, scope: Scope) -> tuple[int, bytes, bytes]:
        path: bytes = scope["raw_path"]
        reading = scope["method"] in ("GET", "HEAD")
        plain = self._get.get(path)
        if plain is not None:
            return plain() if reading else _not_allowed(b"GET, HEAD")
        if path == MODELS or path.startswith(MODELS + b"/"):
            return self._models(scope, path) if reading else _not_allowed(b"GET, HEAD")
        if path in HOT_ROUTES:
            return _not_allowed(b"POST")
        raise Refused("not_found")

    def _livez(self) -> tuple[int, bytes, bytes]:
        return 200, b"text/plain; charset=utf-8", b"ok\n"

    def _readyz(self) -> tuple[int, bytes, bytes]:
        reasons, notes = self._worker.not_ready(), self._worker.degraded()
        body = {
            "ready": not reasons,
            "reasons": reasons,
            "degraded": notes,
            "policy_version": self._worker.version,
            "policy_age_s": self._worker.policy_age_s(),
        }
        return (503 if reasons else 200), JSON, orjson.dumps(body)

    def _metrics(self) -> tuple[int, bytes, bytes]:
        self._worker.set_gauges()
        body = scrape(self._worker.metrics, self._worker.slot.directory)
        return 200, b"text/plain; version=0.0.4; charset=utf-8", body

    def _models(self, scope: Scope, path: bytes) -> tuple[int, bytes, bytes]:
        """Only what the key may use; a model it may not use looks like one that does not exist."""
        engine = self._worker.engine
        runtime = engine.store.current
        if runtime is None:
            raise Refused("not_ready", retry_after_ms=1000)
        offers = runtime.models_for(engine.authenticate(runtime, _exchange(scope)))
        if path == MODELS:
            listed = {"object": "list", "data": [_model(offer) for offer in offers]}
            return 200, JSON, orjson.dumps(listed)
        wanted = path.removeprefix(MODELS + b"/").decode("ascii", "replace")
        for offer in offers:
            if offer.model == wanted:
                return 200, JSON, orjson.dumps(_model(offer))
        raise Refused("model_not_found", param="model")

    async def _refuse(self, refused: Refused, send: Send) -> None:
        engine = self._worker.engine
        engine.metrics.refusals[refused.code] += 1
        request_id = engine.ids.request_id().decode()
        headers = response_headers(refused, request_id, self._worker.version or None)
        await _send(send, refused.status, headers, openai_body(refused, request_id))


def _not_allowed(allowed: bytes) -> tuple[int, bytes, bytes]:
    raise Refused("method_not_allowed", headers=((b"allow", allowed),))


def _exchange(scope: Scope) -> Exchange:
    """The head alone, as the key look-up wants it. The doors have seen to singletons."""
    exchange = Exchange()
    exchange.singletons = {n: v for n, v in scope["headers"] if n in SINGLETONS}
    return exchange


def _model(offer: ModelOffer) -> dict[str, Any]:
    return {
        "id": offer.model,
        "object": "model",
        "created": offer.created_s or int(time.time_ns() // 1_000_000_000),
        "owned_by": "ace",
    }


def _shown(scope: Scope, body: bytes) -> tuple[bytes, int]:
    """HEAD tells the length and sends nothing."""
    return (b"" if scope["method"] == "HEAD" else body), len(body)


async def _send(
    send: Send,
    status: int,
    headers: list[tuple[bytes, bytes]],
    body: bytes | tuple[bytes, int],
) -> None:
    content, length = body if isinstance(body, tuple) else (body, len(body))
    headers = [*headers, (b"content-length", b"%d" % length), (b"cache-control", b"no-store")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": content})
