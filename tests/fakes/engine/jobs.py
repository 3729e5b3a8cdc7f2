"""One inference request on its way through a fake engine: plan, sequences, answer, and what goes wrong with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson

from tests.fakes.engine.asks import Ask
from tests.fakes.engine.dialects.base import Choice, Envelope, Usage
from tests.fakes.engine.http import Exchange, Header
from tests.fakes.engine.lexicon import FIRST_WORD_ID, WORDS, Story, word_ids
from tests.fakes.engine.options import Faults
from tests.fakes.engine.scheduler import Sequence
from tests.fakes.engine.truth import Kind, Record

if TYPE_CHECKING:
    from tests.fakes.engine.core import FakeEngine

JSON_TYPE: Header = (b"content-type", b"application/json")
SSE_TYPE: Header = (b"content-type", b"text/event-stream; charset=utf-8")
GARBAGE = {
    "html": (b"text/html", b"<html><body><h1>502 Bad Gateway</h1></body></html>"),
    "bytes": (b"application/octet-stream", bytes(range(256))),
    "truncated_json": (
        b"application/json",
        b'{"id":"chatcmpl-1","object":"chat.completion","choices":[{"ind',
    ),
}


def plan(ask: Ask, prompt: list[int], index: int, engine: FakeEngine) -> Choice:
    """The whole answer of one choice, before its first token is due."""
    options = engine.options
    # Adapters and further choices answer differently, but always the same way.
    seed = options.seed ^ ask.seed ^ (index << 16) ^ hash_of(ask.adapter or "")
    story = Story(prompt, seed, options.answer_tokens)
    room = options.limits.max_model_len - len(prompt)
    limit = room if ask.max_tokens is None else min(room, ask.max_tokens)
    count = limit if ask.ignore_eos else min(limit, story.tokens_left)
    pieces = story.pieces(count)
    ended = count < limit or (count == story.tokens_left and not ask.ignore_eos)
    choice = Choice(index, pieces, word_ids(pieces), "stop" if ended else "length", tool=ask.tool)
    _apply_stop(choice, ask.stop)
    _corrupt(choice, engine)
    if choice.tool:
        choice.pieces = _as_arguments(choice.pieces)
        choice.finish_reason = "tool_calls"
    return choice


def hash_of(name: str) -> int:
    return int.from_bytes(name.encode()[:4], "little")


def _apply_stop(choice: Choice, stops: tuple[str, ...]) -> None:
    """Cut at the first stop string; the tokens that spell it are produced and paid for, but not shown."""
    text = "".join(choice.pieces)
    found = [(text.index(stop), stop) for stop in stops if stop in text]
    if not found:
        return
    # The earliest to be complete wins, as in an engine that looks after each token.
    cut, stop = min(found, key=lambda hit: hit[0] + len(hit[1]))
    length, kept = 0, 0
    while length < cut + len(stop):
        length += len(choice.pieces[kept])
        kept += 1
    shown, visible = [], cut
    for piece in choice.pieces[:kept]:
        shown.append(piece[:visible])
        visible = max(0, visible - len(piece))
    choice.pieces, choice.ids = shown, choice.ids[:kept]
    choice.finish_reason, choice.stop_reason = "stop", stop


def _corrupt(choice: Choice, engine: FakeEngine) -> None:
    rate = engine.faults.flip_rate
    if not rate:
        return
    for at, token in enumerate(choice.ids):
        if engine.dice.random() < rate:
            wrong = WORDS[(token - FIRST_WORD_ID + 1) % len(WORDS)]
            choice.pieces[at] = wrong if not choice.pieces[at].startswith(" ") else " " + wrong
            choice.ids[at] = word_ids([wrong])[0]


def _as_arguments(pieces: list[str]) -> list[str]:
    if not pieces:
        return []
    inner = ['{"text": "' + pieces[0], *pieces[1:]]
    return [*inner[:-1], inner[-1] + '"}']


class Job:
    """An accepted request. It is the sink of all its sequences' progress."""

    def __init__(
        self, engine: FakeEngine, exchange: Exchange, ask: Ask, serial: int, faults: Faults
    ) -> None:
        self.engine = engine
        self.exchange = exchange
        self.ask = ask
        self.serial = serial
        self.faults = faults
        self.request_id = exchange.header(b"x-request-id")
        ident = engine.dialect.ident(ask.route, self.request_id, serial)
        self.envelope = Envelope(ident, int(engine.now()), ask.model, ask)
        self.arrived = engine.clock()
        self.first_token_at = 0.0
        self.cached_tokens = 0
        self.events_sent = 0
        self.opened = False
        self.over = False
        self.lanes = [
            Lane(self, plan(ask, prompt, at * ask.choices + n, engine), prompt)
            for at, prompt in enumerate(ask.prompts)
            for n in range(ask.choices)
        ]
        for lane in self.lanes:
            lane.choice.echo = ask.echo_texts[lane.choice.index // ask.choices]

    @property
    def prompt_tokens(self) -> int:
        return sum(len(prompt) for prompt in self.ask.prompts)

    @property
    def produced(self) -> int:
        return sum(lane.sent for lane in self.lanes)

    def usage(self) -> Usage:
        size = self.engine.options.limits.block_tokens
        created = max(0, sum(len(p) // size * size for p in self.ask.prompts) - self.cached_tokens)
        return Usage(self.prompt_tokens, self.produced, self.cached_tokens, created)

    # from the engine
    def begin(self) -> None:
        if self.over or self.faults.hang:
            return
        if self.ask.stream and not self._start_stream():
            return
        self.engine.submit(self)

    def _start_stream(self) -> bool:
        if self.faults.garbage:
            self._send_garbage()
            return False
        self.exchange.start(200, (*self.engine.base_headers(self.request_id), SSE_TYPE))
        return not self._cut_here()

    def gone(self) -> None:
        """The client left: everything stops now."""
        if not self.over:
            self._stop("cancelled", "client gone")

    def fail(self, why: str) -> None:
        """The engine dies under the request."""
        if not self.over:
            self._stop("cut", why)

    # from the lanes
    def lane_ended(self) -> None:
        if self.over or any(not lane.ended for lane in self.lanes):
            return
        if self.ask.stream:
            self._close_stream()
        else:
            self._answer()

    def emit(self, chunk: object) -> None:
        """Send one SSE event, or let the stream go wrong instead."""
        if self.over or self._cut_here():
            return
        self.events_sent += 1
        self.exchange.send(b"data: " + orjson.dumps(chunk) + b"\n\n")

    def open_stream(self) -> None:
        """The role chunks, which come with the first token and not before, so that they do not hide its delay."""
        if self.opened:
            return
        self.opened = True
        usage = Usage(self.prompt_tokens, 0, 0) if self.ask.continuous_usage else None
        for lane in self.lanes:
            chunk = self.engine.dialect.opening(self.envelope, lane.choice.index, usage)
            if chunk is not None:
                self.emit(chunk)

    def _close_stream(self) -> None:
        if self.ask.include_usage and self.faults.usage != "absent":
            for usage in self._shown_usages():
                self.emit(self.engine.dialect.closing(self.envelope, usage))
        if self.over or self._cut_here():
            return
        self._record("finished", finish_reason=self.lanes[0].choice.finish_reason)
        self.over = True
        self.exchange.send(b"data: [DONE]\n\n")
        self.exchange.end()
        self.engine.finished(self)

    def _shown_usages(self) -> list[Usage]:
        right = self.usage()
        if self.faults.usage == "zero":
            return [Usage(0, 0, 0)]
        early = Usage(right.prompt_tokens, right.completion_tokens // 2, right.cached_tokens)
        return [early, right] if self.faults.usage == "twice" else [right]

    def _answer(self) -> None:
        if self.faults.garbage:
            self._send_garbage()
            return
        self._record("finished", finish_reason=self.lanes[0].choice.finish_reason)
        self.over = True
        headers = (*self.engine.base_headers(self.request_id), JSON_TYPE)
        self.exchange.respond(200, self._body(), headers)
        self.engine.finished(self)

    def _send_garbage(self) -> None:
        kind, body = GARBAGE[self.faults.garbage]
        self._stop("cut", f"garbage {self.faults.garbage}")
        self.exchange.respond(200, body, ((b"content-type", kind),))

    def _body(self) -> bytes:
        usages = self._shown_usages()
        usage = None if self.faults.usage == "absent" else usages[-1]
        choices = [lane.choice for lane in self.lanes]
        whole = self.engine.dialect.whole(self.envelope, choices, usage)
        if self.faults.finish_reason_absent:
            for choice in whole["choices"]:
                del choice["finish_reason"]
        return orjson.dumps(whole)

    def _cut_here(self) -> bool:
        """Whether the stream goes wrong at this point; if so it has."""
        faults, at = self.faults, self.events_sent
        if at == faults.die_after_events:
            self._stop("cut", "die")
            self.exchange.reset()
        elif at == faults.eof_after_events:
            self._stop("cut", "eof")
            self.exchange.hang_up()
        elif at == faults.hang_after_events:
            self._stop_sequences()
        elif at == faults.error_event_after_events:
            error = self.engine.dialect.stream_error(
                500, "EngineCore encountered an issue.", "InternalServerError"
            )
            self._stop("cut", "error event")
            self.exchange.send(b"data: " + orjson.dumps(error) + b"\n\ndata: [DONE]\n\n")
            self.exchange.end()
        else:
            return False
        return True

    def _stop(self, kind: Kind, why: str) -> None:
        self._stop_sequences()
        self._record(kind, why=why)
        self.over = True
        self.engine.finished(self, aborted=True)

    def _stop_sequences(self) -> None:
        for lane in self.lanes:
            if not lane.ended:
                lane.ended = True
                self.engine.scheduler.cancel(lane.sequence)

    def _record(self, kind: Kind, why: str = "", finish_reason: str = "") -> None:
        self.engine.truth.write(
            Record(
                kind,
                self.engine.now(),
                self.engine.options.name,
                self.serial,
                request_id=self.request_id,
                model=self.ask.model,
                stream=self.ask.stream,
                prompt_tokens=self.prompt_tokens,
                cached_tokens=self.cached_tokens,
                completion_tokens=self.produced,
                events_sent=self.events_sent,
                finish_reason=finish_reason,
                why=why,
            )
        )


class Lane:
    """One choice of a job; hears from the scheduler."""

    def __init__(self, job: Job, choice: Choice, prompt: list[int]) -> None:
        self.job = job
        self.choice = choice
        self.sent = 0
        self.ended = False
        adapter, salt = job.ask.adapter, job.ask.salt
        self.sequence = Sequence(prompt, choice.ids, self, adapter=adapter, salt=salt)

    def started(self, found_tokens: int) -> None:
        # Choices of one prompt share its prefill, so only the first counts.
        if self.choice.index % self.job.ask.choices == 0:
            self.job.cached_tokens += found_tokens
        self.job.engine.started(self.job, len(self.sequence.prompt), found_tokens)

    def produced(self, tokens: int) -> None:
        job = self.job
        if tokens and not job.first_token_at:
            job.first_token_at = job.engine.clock()
        for at in range(self.sent, self.sent + tokens):
            if job.over or self.ended:
                return
            self.sent = at + 1
            if job.ask.stream:
                self._emit(at)

    def _emit(self, at: int) -> None:
        job = self.job
        job.open_stream()
        usage = job.usage() if job.ask.continuous_usage else None
        chunk = job.engine.dialect.delta(job.envelope, self.choice, at, usage)
        if job.faults.finish_reason_absent:
            chunk["choices"][0]["finish_reason"] = None
        job.emit(chunk)

    def ended_now(self) -> None:
        if not self.choice.ids and self.job.ask.stream:
            self._emit(0)  # an empty answer still says why it ended
        self.ended = True
        self.job.lane_ended()
