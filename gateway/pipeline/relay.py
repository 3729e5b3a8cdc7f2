"""Ties one client exchange to the attempts at engines, with callbacks: no task, no future, no queue per request.

Every exit ends in `_end`: answer, error, refusal, client gone, deadline, exception. Once a byte of a stream went out,
the attempt is committed and nothing is tried again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from time import monotonic_ns
from typing import Any, Final

import orjson

from gateway import tasks
from gateway.pipeline import answer
from gateway.pipeline.context import Call
from gateway.pipeline.engine import Engine
from gateway.pipeline.settle import OK_STATUS, End
from gateway.protocols.errors import Refused, openai_stream_error, reason_phrase
from gateway.protocols.sse import StreamFilter
from gateway.server.exchange import Exchange
from gateway.upstream.transport import Deadlines, Transfer, UpstreamError
from policies.contract.facts import Outcome
from telemetry import events

DEADLINES: Final = Deadlines()
CHECKPOINT_EVENTS: Final = 256
CHECKPOINT_NS: Final = 1_000_000_000
CLIENT_GONE: Final = 499
MAX_ATTEMPTS: Final = 2
MAX_HELD_BYTES: Final = 64 << 10
MAX_PASSED_BYTES: Final = 64 << 10
MAX_RETRY_AFTER_MS: Final = 120_000
RETRYABLE: Final = frozenset((502, 503, 504))
CALLERS_FAULT: Final = frozenset((400, 413, 422))
SUCCESS: Final = Outcome("success")
FAILURE: Final = Outcome("failure")
NEUTRAL: Final = Outcome("neutral")
CREDENTIAL: Final = Outcome("credential")

log: Final = logging.getLogger(__name__)


class Relay:
    """Listener of the client and sink of the engine, for one request."""

    __slots__ = (
        "_call",
        "_engine",
        "_exchange",
        "_filter",
        "_held",
        "_mark_events",
        "_mark_ns",
        "_started",
        "_transfer",
        "_waiting",
    )

    def __init__(self, engine: Engine, exchange: Exchange, call: Call) -> None:
        self._engine, self._exchange, self._call = engine, exchange, call
        self._transfer: Transfer | None = None
        self._waiting: asyncio.Task[Any] | None = None
        self._filter: StreamFilter | None = None
        self._held = b""
        """Start of a stream that has no content yet: nothing is committed before the first token."""
        self._mark_events = self._mark_ns = 0
        self._started = False

    def start(self) -> None:
        """Admit and send, or refuse. Called once, with the body complete."""
        self._engine.active.add(self)
        try:
            if self._engine.admit(self._call, self._exchange.body):
                self._dispatch()
            else:
                self._exchange.listener = self
                self._waiting = tasks.spawn(self._fetch_money(), "lease-wait")
        except Refused as refused:
            self._refuse(refused)
        except Exception as error:  # noqa: BLE001 - a request that broke must still be settled and answered
            self._broke(error)

    async def _fetch_money(self) -> None:
        try:
            await self._engine.fetch_money(self._call)
            self._waiting = None
            self._dispatch()
        except Refused as refused:
            self._waiting = None
            self._refuse(refused)
        except Exception as error:  # noqa: BLE001 - see start
            self._waiting = None
            self._broke(error)

    def _dispatch(self) -> None:
        self._engine.open(self._call)
        self._exchange.listener = self
        self._send()

    def _send(self) -> None:
        candidate = self._call.candidate
        assert candidate is not None
        if self._call.request.stream:
            self._filter = StreamFilter(hide_usage=not self._call.request.wants_usage)
        payload = self._engine.payload(self._call, candidate)
        self._transfer = candidate.lane.transport.send(payload, self, DEADLINES)

    # -- ends --------------------------------------------------------------------------------------------------------

    def _end(self, end: End) -> int:
        """Settle and break every reference that could keep this request alive."""
        billed = self._engine.settler.settle(self._call, end)
        self._transfer = self._waiting = None
        self._exchange.listener = None
        self._engine.active.discard(self)
        return billed

    def cut(self) -> None:
        """The drain limit is reached: end what is still running, billed for what was produced."""
        self._abort_upstream()
        if self._waiting is not None:
            self._waiting.cancel()
        refused = Refused("draining", retry_after_ms=1000)
        if self._started:
            self._fail_stream(refused, "interrupted")
        else:
            self._refuse(refused, "interrupted")

    def rebudget(self) -> None:
        """One that is not open yet joins when it opens."""
        if self._call.segment is not None:
            self._engine.join_budgets(self._call)

    def _refuse(self, refused: Refused, outcome: events.Outcome = "upstream_refused") -> None:
        self._engine.refused(None if self._call.segment else self._call, refused)
        self._end(End(refused.status, outcome, refused.code, produced=self._produced()))
        if not self._exchange.started:
            self._exchange.send_all(self._engine.render(refused, self._call))

    def _broke(self, error: BaseException) -> None:
        log.error("a request failed inside the gateway", exc_info=error)
        if self._transfer is not None:
            self._transfer.abort()
        refused = Refused("internal_error")
        if self._started:
            self._fail_stream(refused, "upstream_error")
        else:
            self._refuse(refused, "upstream_error")

    def _produced(self) -> bool:
        """Whether the engine may have worked for this request without telling how much."""
        return self._call.engine_status == OK_STATUS

    def _fail_stream(self, refused: Refused, outcome: events.Outcome) -> None:
        """An error event in the caller's dialect and no `[DONE]`: never mistaken for a finished answer."""
        exchange, call = self._exchange, self._call
        self._note_usage()
        self._end(End(OK_STATUS, outcome, refused.code, produced=True))
        exchange.send_chunk(openai_stream_error(refused, call.request_id.decode()))
        exchange.finish()

    def _attempt_failed(self, refused: Refused, kind: Outcome, *, retry: bool) -> None:
        """Before the first byte: try once more elsewhere if that is safe, else answer."""
        self._transfer = None
        call = self._call
        call.output_events = 0
        self._engine.settler.end_attempt(call, kind, refused.code)
        if retry and not self._started and call.tried < MAX_ATTEMPTS:
            try:
                self._engine.next_candidate(call)
                self._held = b""
                self._send()
            except Refused:
                pass  # nobody else may serve: the first failure is the answer
            except Exception as error:  # noqa: BLE001 - see start
                self._broke(error)
                return
            else:
                return
        outcome: events.Outcome = (
            "timeout" if refused.code == "upstream_timeout" else "upstream_error"
        )
        self._refuse(refused, outcome)

    # -- from the engine ---------------------------------------------------------------------------------------------

    def on_unary(self, status: int, headers: Mapping[bytes, bytes], body: bytes) -> None:
        try:
            self._call.engine_status = status
            if status == OK_STATUS and not self._call.request.stream:
                self._finish_unary(body)
            elif status == OK_STATUS:
                # a stream was asked for: half an answer would look like a whole one
                self._attempt_failed(Refused("upstream_bad_response"), FAILURE, retry=False)
            else:
                self._engine_refused(status, headers, body)
        except Exception as error:  # noqa: BLE001 - see start
            self._broke(error)

    def _finish_unary(self, body: bytes) -> None:
        call, settler = self._call, self._engine.settler
        try:
            call.usage = call.dialect.read_answer(body).usage
        except Refused as refused:
            self._attempt_failed(refused, FAILURE, retry=False)
            return
        settler.end_attempt(call, SUCCESS)
        billed = self._end(End(OK_STATUS, "ok", produced=True))
        self._exchange.send_all(answer.unary(call, body, billed))

    def _engine_refused(self, status: int, headers: Mapping[bytes, bytes], body: bytes) -> None:
        if status in CALLERS_FAULT and _is_error(body):
            call = self._call
            self._engine.settler.end_attempt(call, NEUTRAL, f"status_{status}")
            self._end(End(status, "upstream_refused", "invalid_request"))
            self._exchange.send_all(answer.passed_on(call, status, reason_phrase(status), body))
            return
        refused, kind = _judge(status, headers)
        self._attempt_failed(refused, kind, retry=status in RETRYABLE)

    def on_stream_start(self, status: int, headers: Mapping[bytes, bytes]) -> None:
        self._call.engine_status = status
        if status == OK_STATUS and self._filter is not None:
            return
        self._abort_upstream()
        refused, kind = _judge(status if status != OK_STATUS else 502, headers)
        self._attempt_failed(refused, kind, retry=False)

    def on_stream_data(self, data: bytes) -> None:
        try:
            self._pass_on(data)
        except Refused as refused:
            self._abort_upstream()
            cut = refused.code == "budget_exceeded"
            self._stream_broke(refused, "budget_cut" if cut else "upstream_error")
        except Exception as error:  # noqa: BLE001 - see start
            self._broke(error)

    def _pass_on(self, data: bytes) -> None:
        stream = self._filter
        if stream is None or self._call.settled:
            return
        data = stream.feed(data)
        seen = stream.output_events
        if seen and not self._call.first_ns:
            self._call.first_ns = monotonic_ns()
        if stream.fault is not None:
            self._abort_upstream()
            self._stream_broke(Refused("upstream_bad_response"))
            return
        if not self._started:
            data = self._commit(data, seen)
        if data:
            self._exchange.send_chunk(data)
        if seen != self._mark_events:
            self._checkpoint(seen)

    def _commit(self, data: bytes, seen: int) -> bytes:
        """Hold what has no content yet; with the first content, or too much without any, the head goes out."""
        data = self._held + data
        stream = self._filter
        assert stream is not None
        if not seen and not stream.done and len(data) < MAX_HELD_BYTES:
            self._held = data
            return b""
        self._held = b""
        if data:
            self._started = True
            self._exchange.send_head(answer.stream_head(self._call))
        return data

    def _checkpoint(self, seen: int) -> None:
        """Each second or each 256 tokens: what a crash may forget of this stream."""
        now_ns = monotonic_ns()
        if not self._mark_ns:
            self._mark_ns = now_ns
        if seen - self._mark_events >= CHECKPOINT_EVENTS or now_ns - self._mark_ns >= CHECKPOINT_NS:
            self._mark_events, self._mark_ns = seen, now_ns
            self._engine.progressed(self._call, seen)
            self._call.check_output(seen)

    def on_stream_end(self) -> None:
        try:
            self._finish_stream()
        except Exception as error:  # noqa: BLE001 - see start
            self._broke(error)

    def _finish_stream(self) -> None:
        stream, exchange = self._filter, self._exchange
        if stream is None or self._call.settled:
            return
        rest = stream.end()
        if stream.fault is not None or not stream.done:
            self._stream_broke(Refused("upstream_bad_response"))
            return
        if not self._started:
            rest = self._commit(rest, stream.output_events)
        self._note_usage()
        self._engine.settler.end_attempt(self._call, SUCCESS)
        self._end(End(OK_STATUS, "ok", produced=True))
        if rest:
            exchange.send_chunk(rest)
        exchange.finish()

    def _stream_broke(self, refused: Refused, outcome: events.Outcome = "upstream_error") -> None:
        """The engine stopped before `[DONE]`."""
        if self._started:
            self._engine.settler.end_attempt(self._call, FAILURE, refused.code)
            self._fail_stream(refused, outcome)
        else:
            self._note_usage()
            self._attempt_failed(refused, FAILURE, retry=False)

    def _note_usage(self) -> None:
        if self._filter is not None:
            self._call.usage = self._filter.usage
            self._call.output_events = self._filter.output_events

    def on_error(self, error: UpstreamError) -> None:
        try:
            self._transfer = None
            refused = Refused(error.code)
            if self._started:
                late = refused.code == "upstream_timeout"
                self._stream_broke(refused, "timeout" if late else "upstream_error")
                return
            neutral = error.kind in ("pool_exhausted", "closed")
            self._attempt_failed(refused, NEUTRAL if neutral else FAILURE, retry=error.replayable)
        except Exception as broken:  # noqa: BLE001 - see start
            self._broke(broken)

    def _abort_upstream(self) -> None:
        transfer, self._transfer = self._transfer, None
        if transfer is not None:
            transfer.abort()

    # -- from the client ---------------------------------------------------------------------------------------------

    def client_gone(self) -> None:
        """Stop the engine at once; what was produced is paid for."""
        self._abort_upstream()
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            waiting.cancel()
        self._note_usage()
        call = self._call
        sent = call.segment is not None and not call.request.stream
        self._end(End(CLIENT_GONE, "client_gone", "client_gone", produced=sent))

    def client_paused(self) -> None:
        if self._transfer is not None:
            self._transfer.pause()

    def client_resumed(self) -> None:
        if self._transfer is not None:
            self._transfer.resume()


def _judge(status: int, headers: Mapping[bytes, bytes]) -> tuple[Refused, Outcome]:
    """What an engine's refusal means to the caller, and to the guards."""
    if status == 429:  # noqa: PLR2004
        wait_ms = _retry_after_ms(headers)
        return Refused("upstream_rate_limited", retry_after_ms=wait_ms or None), Outcome(
            "throttle", retry_after_ms=wait_ms
        )
    if status in (401, 403):
        return Refused("upstream_credential_refused"), CREDENTIAL
    if status == 503:  # noqa: PLR2004
        return Refused(
            "upstream_unavailable", retry_after_ms=_retry_after_ms(headers) or 1000
        ), FAILURE
    if status == 504:  # noqa: PLR2004
        return Refused("upstream_timeout"), FAILURE
    return Refused("upstream_bad_response"), FAILURE if status >= 500 else NEUTRAL  # noqa: PLR2004


def _retry_after_ms(headers: Mapping[bytes, bytes]) -> int:
    """Milliseconds an engine asks for, within reason; 0 when it says nothing we understand."""
    for name, scale in ((b"retry-after-ms", 1), (b"retry-after", 1000)):
        value = headers.get(name, b"")
        if value.isdigit() and len(value) < 10:  # noqa: PLR2004 - a sane number
            return min(int(value) * scale, MAX_RETRY_AFTER_MS)
    return 0


def _is_error(body: bytes) -> bool:
    """Whether `body` is an error object a caller can read; anything else stays here."""
    if len(body) > MAX_PASSED_BYTES:
        return False
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        return False
    return type(document) is dict and type(document.get("error")) is dict
