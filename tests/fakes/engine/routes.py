"""The paths of a fake engine: which there are depends on its personality, and everything else is 404 in its words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from tests.fakes.engine.asks import Ask, EngineError, Route
from tests.fakes.engine.dialects.checks import FieldFault, not_an_object
from tests.fakes.engine.embeddings import embedding_answer
from tests.fakes.engine.http import Exchange, Header
from tests.fakes.engine.jobs import JSON_TYPE, Job
from tests.fakes.engine.metrics import render
from tests.fakes.engine.options import Faults
from tests.fakes.engine.truth import Record, seen_headers

if TYPE_CHECKING:
    from tests.fakes.engine.core import FakeEngine

_INFERENCE: dict[str, Route] = {"/v1/chat/completions": "chat", "/v1/completions": "completion"}
_TEXT: Header = (b"content-type", b"text/plain; version=0.0.4; charset=utf-8")


OVERLOAD = (
    "The engine is currently busy and cannot accept new requests. "
    "Please try again later or on a different instance."
)


class Routes:
    """Takes each finished request to what serves it."""

    def __init__(self, engine: FakeEngine) -> None:
        self._engine = engine

    def handle(self, exchange: Exchange) -> None:
        try:
            if exchange.path in _INFERENCE:
                self._require(exchange, "POST")
                self._infer(exchange, _INFERENCE[exchange.path])
            elif exchange.method == "GET":
                self._get(exchange)
            else:
                self._post(exchange)
        except EngineError as error:
            self._send_error(exchange, error)

    def _require(self, exchange: Exchange, method: str) -> None:
        if exchange.method != method:
            raise EngineError(405, {"detail": "Method Not Allowed"}, ((b"allow", method.encode()),))

    # inference
    def _infer(self, exchange: Exchange, route: Route) -> None:
        engine = self._engine
        engine.served += 1
        serial = engine.served
        body: object = None
        try:
            body = self._json(exchange)
            ask = engine.dialect.read(route, body, engine.words, engine.adapters)
        except EngineError as error:
            self._record_refusal(exchange, body, serial, error.status, "invalid request")
            raise
        if not self._refused_by_fault(exchange, body, serial) and not self._overflow(
            exchange, body, serial
        ):
            self._accept(exchange, body, ask, serial)

    def _accept(self, exchange: Exchange, body: object, ask: Ask, serial: int) -> None:
        engine = self._engine
        faults = engine.faults
        if faults.times is not None and faults.breaks_answers:
            if faults.times:
                engine.set_faults(times=faults.times - 1)
            else:  # used up: still written down, but hitting nobody any more
                faults = Faults(latency_ms=faults.latency_ms, flip_rate=faults.flip_rate)
        job = Job(engine, exchange, ask, serial, faults)
        record = self._record("accepted", exchange, body, serial)
        record.model, record.stream = ask.model, ask.stream
        record.prompt_tokens = job.prompt_tokens
        engine.truth.write(record)
        engine.jobs.add(job)
        exchange.gone = job.gone
        if faults.latency_ms:
            engine.call_later(faults.latency_ms / 1e3, job)
        else:
            job.begin()

    def _refused_by_fault(self, exchange: Exchange, body: object, serial: int) -> bool:
        faults = self._engine.faults
        if (
            not faults.error_rate
            or faults.times == 0
            or self._engine.dice.random() >= faults.error_rate
        ):
            return False
        if faults.times is not None:
            self._engine.set_faults(times=faults.times - 1)
        status = faults.error_status
        self._record_refusal(exchange, body, serial, status, "fault")
        error = self._engine.dialect.error(status, "Injected by the fake engine.", _kind(status))
        headers: tuple[Header, ...] = ()
        if faults.retry_after is not None:
            headers = ((b"retry-after", faults.retry_after.encode("latin-1")),)
        self._send_error(exchange, EngineError(status, error.body, headers))
        return True

    def _overflow(self, exchange: Exchange, body: object, serial: int) -> bool:
        engine = self._engine
        if not engine.scheduler.full:
            return False
        engine.stats.rejected += 1
        self._record_refusal(exchange, body, serial, 503, "queue overflow")
        self._send_error(exchange, engine.dialect.error(503, OVERLOAD, "Service Unavailable"))
        return True

    def _record(self, kind: Any, exchange: Exchange, body: object, serial: int) -> Record:
        engine = self._engine
        return Record(
            kind,
            engine.now(),
            engine.options.name,
            serial,
            request_id=exchange.header(b"x-request-id"),
            path=exchange.path,
            headers=seen_headers(exchange.headers),
            fields=tuple(body) if isinstance(body, dict) else (),
            body=body if engine.options.log_bodies else None,
        )

    def _record_refusal(
        self, exchange: Exchange, body: object, serial: int, status: int, why: str
    ) -> None:
        record = self._record("refused", exchange, body, serial)
        record.status, record.why = status, why
        self._engine.truth.write(record)

    # everything else
    def _get(self, exchange: Exchange) -> None:
        engine, path = self._engine, exchange.path
        if path in ("/health", "/health_generate", "/ping", "/ready"):
            exchange.respond(503 if engine.faults.unhealthy else 200, b"", engine.base_headers(""))
        elif path == engine.dialect.metrics_path:
            families = engine.dialect.families(engine.stats, engine.load())
            page = render(families, engine.faults.metrics_absent)
            exchange.respond(200, page.encode(), (*engine.base_headers(""), _TEXT))
        elif path == "/v1/models":
            self._send_json(exchange, engine.dialect.models(engine.adapters))
        elif path == "/version":
            self._send_json(exchange, {"version": engine.dialect.version})
        elif path == "/kv_event_sources" and engine.kv is not None:
            self._send_json(exchange, self._kv_sources())
        else:
            self._get_extra(exchange)

    def _get_extra(self, exchange: Exchange) -> None:
        answer = self._engine.dialect.extra_get(exchange.path, self._engine.load())
        if answer is None:
            raise self._not_found(exchange)
        self._send_json(exchange, answer)

    def _kv_sources(self) -> dict[str, Any]:
        kv = self._engine.kv
        assert kv is not None
        return {
            "0": {
                "enable_kv_cache_events": True,
                "publisher": "zmq",
                "endpoint": f"tcp://127.0.0.1:{kv.port}",
                "replay_endpoint": f"tcp://127.0.0.1:{kv.replay_port}",
                "buffer_steps": 10_000,
                "hwm": 100_000,
                "max_queue_size": 100_000,
                "topic": kv.topic,
            }
        }

    def _post(self, exchange: Exchange) -> None:
        engine, path = self._engine, exchange.path
        tokenize, detokenize = engine.dialect.tokenize_paths
        if path == "/v1/embeddings" and engine.options.embeddings:
            self._send_json(
                exchange, embedding_answer(engine.dialect, self._object(exchange), engine.words)
            )
        elif path and path == tokenize:
            self._tokenize(exchange)
        elif path and path == detokenize:
            tokens = self._object(exchange).get("tokens") or []
            self._send_json(exchange, {"prompt": engine.words.decode(tokens)})
        elif path and path in engine.dialect.lora_paths and engine.options.runtime_lora:
            self._adapters(exchange)
        else:
            raise self._not_found(exchange)

    def _tokenize(self, exchange: Exchange) -> None:
        engine, body = self._engine, self._object(exchange)
        if body.get("model") is not None:
            engine.dialect.resolve(body, engine.adapters)
        if "messages" in body:
            tokens = engine.dialect.render_chat(body, engine.words)
        else:
            tokens = engine.words.encode(str(body.get("prompt", "")))
        self._send_json(exchange, engine.dialect.tokenized(tokens))

    def _adapters(self, exchange: Exchange) -> None:
        engine, body = self._engine, self._object(exchange)
        load = exchange.path == engine.dialect.lora_paths[0]
        act = engine.dialect.load_adapter if load else engine.dialect.unload_adapter
        answer = act(body, engine.adapters)
        if isinstance(answer, str):
            exchange.respond(200, answer.encode(), engine.base_headers(""))
        else:
            self._send_json(exchange, answer)

    # small things
    def _json(self, exchange: Exchange) -> object:
        media = exchange.header(b"content-type").partition(";")[0].strip().lower()
        if exchange.body and media != "application/json":
            message = (
                "1 validation error:\n  Unsupported Media Type: Only 'application/json' is allowed"
            )
            raise self._engine.dialect.error(400, message, "Bad Request")
        if not exchange.body:
            raise self._invalid(FieldFault("", "missing", "Field required", None))
        try:
            return orjson.loads(exchange.body)
        except orjson.JSONDecodeError as error:
            fault = FieldFault(str(error.pos), "json_invalid", "JSON decode error", {})
            raise self._invalid(fault) from None

    def _object(self, exchange: Exchange) -> dict[str, Any]:
        body = self._json(exchange)
        if not isinstance(body, dict):
            raise self._invalid(not_an_object(body))
        return body

    def _invalid(self, fault: FieldFault) -> EngineError:
        return self._engine.dialect.invalid(fault)

    def _not_found(self, exchange: Exchange) -> EngineError:
        return EngineError(404, {"detail": "Not Found"})

    def _send_json(self, exchange: Exchange, body: object) -> None:
        exchange.respond(200, orjson.dumps(body), (*self._engine.base_headers(""), JSON_TYPE))

    def _send_error(self, exchange: Exchange, error: EngineError) -> None:
        headers = (*self._engine.base_headers(""), JSON_TYPE, *error.headers)
        exchange.respond(error.status, orjson.dumps(error.body), headers)


def _kind(status: int) -> str:
    return {429: "RateLimitError", 503: "ServiceUnavailableError"}.get(
        status, "BadRequestError" if status < 500 else "InternalServerError"
    )
