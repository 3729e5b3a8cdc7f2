"""Once a second: what happened lately, into Redis and onto the channel layer, also when nothing did.

Runs in the ingest process, which is the only one of its kind. Everything here can be rebuilt: traffic
from the request records, GPUs from the sample stream, workers from what they say of themselves.
"""

from __future__ import annotations

import datetime as dt
import secrets
from collections import deque
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import msgspec
import redis

from telemetry.board import Board, Seen, seen_from_record
from telemetry.events import FINDING_STREAM, SAMPLE_STREAM, USAGE_STREAM
from telemetry.gpus import Fleet
from telemetry.models import RequestRecord
from telemetry.rows import from_ms
from telemetry.samples import Entry, decode_samples
from telemetry.state import (
    LATENCY_S,
    LIVE_KEY,
    RECENT,
    SCOPE_KEY,
    SCOPES_KEY,
    WINDOW_S,
    LiveState,
    decode_state,
    encode_panel,
    encode_state,
)

WORKERS_KEY: Final = "ace:workers"
"""As `policies.schema.wire.WORKERS_KEY`; a test compares both names."""

WORKER_UNKNOWN_MS: Final = 10_000
WATCHED_MS: Final = 15_000
SAMPLES_BACK_MS: Final = 300_000
"""How much of the sample stream is read again after a start, for the strips of utilisation."""
RESTORE_LIMIT: Final = 50_000


class WorkerLoad(msgspec.Struct, frozen=True):
    """The part of a worker's report that the figures need; the rest is the fleet page's."""

    heartbeat_ms: int
    in_flight: int


class Heard(NamedTuple):
    """What the streams brought since the last tick."""

    samples: list[Entry]
    findings: list[Entry]
    backlog: int
    loads: list[WorkerLoad]
    scopes: list[frozenset[str]]


_decode_load: Final = msgspec.json.Decoder(WorkerLoad).decode


class LiveFeed:
    def __init__(self, client: redis.Redis, now_ms: int) -> None:
        self._redis = client
        self.epoch: Final = secrets.token_hex(6)
        self.seq = 0
        self.everyone = Board()
        self._scopes: dict[frozenset[str], Board] = {}
        self._fleet: Final = Fleet()
        self._in_flight: Final[deque[int | None]] = deque(maxlen=WINDOW_S)
        self._samples_id = f"{max(0, now_ms - SAMPLES_BACK_MS)}-0"
        self.findings_id = "0-0"

    def restore(self, now_ms: int) -> None:
        """Take up where the last writer stopped. Raises redis.RedisError, django.db.Error."""
        self.seq = _last_seq(self._redis)
        self.everyone = restored_board(now_ms)

    def add(self, seen: Iterable[Seen]) -> None:
        for item in seen:
            self.everyone.add(item)
            for tenants, board in self._scopes.items():
                if item.tenant_id in tenants:
                    board.add(item)

    def hear(self, now_ms: int) -> Heard:
        """One round trip for everything that is not usage. Raises redis.RedisError."""
        with self._redis.pipeline(transaction=False) as pipe:
            pipe.xread({SAMPLE_STREAM: self._samples_id}, count=2000)
            pipe.xread({FINDING_STREAM: self.findings_id}, count=500)
            pipe.xlen(USAGE_STREAM)
            pipe.hvals(WORKERS_KEY)
            pipe.zremrangebyscore(SCOPES_KEY, 0, now_ms - WATCHED_MS)
            pipe.zrange(SCOPES_KEY, 0, 99)
            samples, findings, backlog, reports, _, scopes = pipe.execute()
        heard = Heard(
            _entries(samples),
            _entries(findings),
            int(backlog),
            list(_loads(reports, now_ms)),
            [frozenset(scope.decode().split(",")) for scope in scopes],
        )
        if heard.samples:
            self._samples_id = heard.samples[-1][0].decode()
        for sample in decode_samples(heard.samples):
            self._fleet.add(sample)
        return heard

    def tick(self, heard: Heard | None, now_ms: int, **known: Any) -> LiveState:
        """The state of this second. `heard` is None while Redis is away: then workers are unknown."""
        self.seq += 1
        in_flight = None
        if heard is not None and heard.loads:
            in_flight = sum(load.in_flight for load in heard.loads)
        self._in_flight.append(in_flight)
        return LiveState(
            epoch=self.epoch,
            seq=self.seq,
            at_ms=now_ms,
            panel=self.everyone.panel(now_ms // 1000),
            backlog=None if heard is None else heard.backlog,
            workers=None if heard is None else len(heard.loads),
            in_flight=in_flight,
            in_flight_series=tuple(self._in_flight),
            nodes=self._fleet.nodes(now_ms),
            gpus=self._fleet.gpus(now_ms),
            **known,
        )

    def publish(self, state: LiveState, scopes: list[frozenset[str]]) -> None:
        """Raises redis.RedisError."""
        now_s = state.at_ms // 1000
        self._watch_scopes(scopes, state.at_ms)
        with self._redis.pipeline(transaction=False) as pipe:
            for tenants, board in self._scopes.items():
                key = SCOPE_KEY.format(scope=",".join(sorted(tenants)))
                pipe.set(key, encode_panel(board.panel(now_s)), px=WATCHED_MS)
            pipe.set(LIVE_KEY, encode_state(state))
            pipe.execute()

    def _watch_scopes(self, scopes: list[frozenset[str]], now_ms: int) -> None:
        """A board for each set of tenants somebody watches, built from the records when it is new."""
        wanted = set(scopes)
        for tenants in self._scopes.keys() - wanted:
            del self._scopes[tenants]
        for tenants in wanted - self._scopes.keys():
            self._scopes[tenants] = restored_board(now_ms, tenants)


def restored_board(now_ms: int, tenants: frozenset[str] | None = None) -> Board:
    """The board as it stands in the request records. Raises django.db.Error."""
    board = Board()
    records = RequestRecord.objects.order_by("-finished_at")
    if tenants is not None:
        records = records.filter(tenant_id__in=tenants)
    since = from_ms(now_ms) - dt.timedelta(seconds=WINDOW_S + LATENCY_S)
    in_window = list(records.filter(finished_at__gte=since)[:RESTORE_LIMIT])
    if len(in_window) < RECENT:
        in_window = list(records[:RECENT])
    for record in in_window:
        board.add(seen_from_record(record))
    return board


def _last_seq(client: redis.Redis) -> int:
    raw: Any = client.get(LIVE_KEY)
    if raw is None:
        return 0
    try:
        return decode_state(raw).seq
    except msgspec.MsgspecError:
        return 0  # written by another version: its successor starts anew


def _entries(answer: Any) -> list[Entry]:
    return list(answer[0][1]) if answer else []


def _loads(reports: Iterable[bytes], now_ms: int) -> Iterable[WorkerLoad]:
    for raw in reports:
        try:
            load = _decode_load(raw)
        except msgspec.MsgspecError:
            continue
        if now_ms - load.heartbeat_ms <= WORKER_UNKNOWN_MS:
            yield load
