"""Rolling figures of the last two minutes. Pure.

A board is a function of the request records alone: built from the events as they arrive, or from the
table after a restart, it is the same board. A test holds that law.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from telemetry import events
from telemetry.histogram import Histogram
from telemetry.models import RequestRecord
from telemetry.rows import to_ms
from telemetry.state import (
    LATENCY_S,
    RATE_S,
    RECENT,
    WINDOW_S,
    ModelRates,
    Panel,
    Rates,
    RecentRequest,
    Series,
)

FAILED: Final = frozenset({"upstream_error", "timeout", "interrupted"})
"""Outcomes that are our side's fault or the engine's; a caller that leaves or runs dry is none."""


class Seen(NamedTuple):
    """One finished or refused request, as far as the live page needs it."""

    request_id: str
    attempt: int
    tenant_id: str
    key_id: str
    model: str
    pool_id: str
    endpoint_id: str
    finished_ms: int
    status: int
    outcome: str
    code: str
    input_tokens: int
    output_tokens: int
    billed_microusd: int
    latency_us: int
    first_token_us: int


def seen_from_event(event: events.RequestFinished | events.RequestRefused) -> Seen:
    if isinstance(event, events.RequestRefused):
        who = (event.request_id, 0, event.tenant_id, event.key_id, event.model, "", "")
        return Seen(*who, event.at_ms, event.status, "refused", event.code, 0, 0, 0, 0, 0)
    return Seen(
        *(event.request_id, event.attempt, event.tenant_id, event.key_id, event.model),
        *(event.pool_id, event.endpoint_id, event.finished_at_ms, event.status, event.outcome),
        *(event.error_code, event.input_tokens, event.output_tokens, event.billed_microusd),
        *(event.latency_us, event.first_token_us),
    )


def seen_from_record(record: RequestRecord) -> Seen:
    return Seen(
        *(record.request_id, record.attempt, record.tenant_id, record.key_id, record.model),
        *(record.pool_id, record.endpoint_id, to_ms(record.finished_at), record.status),
        *(record.outcome, record.code, record.input_tokens, record.output_tokens),
        *(record.billed_microusd, record.latency_us, record.first_token_us),
    )


class _Second:
    """Sums of one second, for one model or all."""

    __slots__ = (
        "billed_microusd",
        "errors",
        "first_token",
        "input_tokens",
        "latency",
        "output_tokens",
        "refused",
        "requests",
    )

    def __init__(self) -> None:
        self.requests = self.errors = self.refused = 0
        self.input_tokens = self.output_tokens = self.billed_microusd = 0
        self.latency, self.first_token = Histogram(), Histogram()

    def add(self, seen: Seen) -> None:
        self.requests += 1
        self.errors += seen.outcome in FAILED
        self.refused += seen.outcome == "refused"
        self.input_tokens += seen.input_tokens
        self.output_tokens += seen.output_tokens
        self.billed_microusd += seen.billed_microusd
        if seen.outcome == "ok":
            self.latency.add(seen.latency_us)
            if seen.first_token_us:
                self.first_token.add(seen.first_token_us)


class _Meter:
    """The last WINDOW_S seconds of one model, or of all."""

    def __init__(self) -> None:
        self.seconds: dict[int, _Second] = {}

    def add(self, second: int, seen: Seen) -> None:
        self.seconds.setdefault(second, _Second()).add(seen)

    def forget(self, before: int) -> None:
        for second in [s for s in self.seconds if s < before]:
            del self.seconds[second]

    def rates(self, now_s: int) -> Rates:
        latest = [self.seconds[s] for s in range(now_s - RATE_S, now_s) if s in self.seconds]
        latency, first_token = Histogram(), Histogram()
        for second in range(now_s - LATENCY_S, now_s + 1):
            if second in self.seconds:
                latency.merge(self.seconds[second].latency)
                first_token.merge(self.seconds[second].first_token)
        sums = {name: sum(getattr(item, name) for item in latest) / RATE_S for name in _SUMS}
        return Rates(
            **sums,
            latency_p50_us=latency.quantile(0.5),
            latency_p95_us=latency.quantile(0.95),
            first_token_p50_us=first_token.quantile(0.5),
            first_token_p95_us=first_token.quantile(0.95),
        )

    def series(self, now_s: int, name: str) -> tuple[int, ...]:
        return tuple(
            getattr(self.seconds[s], name) if s in self.seconds else 0
            for s in range(now_s - WINDOW_S, now_s)
        )


_SUMS: Final = (
    "requests",
    "errors",
    "refused",
    "input_tokens",
    "output_tokens",
    "billed_microusd",
)


class Board:
    """Rolling figures of one scope. The order in which requests arrive does not matter."""

    def __init__(self) -> None:
        self._all = _Meter()
        self._models: dict[str, _Meter] = {}
        self._recent: list[tuple[int, str, int, Seen]] = []

    def add(self, seen: Seen) -> None:
        second = seen.finished_ms // 1000
        self._all.add(second, seen)
        self._models.setdefault(seen.model, _Meter()).add(second, seen)
        self._recent.append((seen.finished_ms, seen.request_id, seen.attempt, seen))
        if len(self._recent) >= 4 * RECENT:
            self._trim()

    def _trim(self) -> None:
        self._recent.sort(reverse=True)
        del self._recent[RECENT:]

    def panel(self, now_s: int) -> Panel:
        """Requests that ended more than WINDOW_S ago leave the figures, not the list."""
        self._forget(now_s - WINDOW_S)
        self._trim()
        models = ((name, meter.rates(now_s)) for name, meter in sorted(self._models.items()))
        return Panel(
            rates=self._all.rates(now_s),
            series=Series(now_s - 1, *(self._all.series(now_s, name) for name in _SERIES)),
            models=tuple(ModelRates(name, rates) for name, rates in models),
            recent=tuple(_recent(item[-1]) for item in self._recent),
            last_ms=self._recent[0][0] if self._recent else 0,
        )

    def _forget(self, before: int) -> None:
        self._all.forget(before)
        for name, meter in list(self._models.items()):
            meter.forget(before)
            if not meter.seconds:
                del self._models[name]

    @property
    def idle(self) -> bool:
        return not self._all.seconds


_SERIES: Final = ("requests", "errors", "output_tokens", "billed_microusd")


def _recent(seen: Seen) -> RecentRequest:
    values = {name: getattr(seen, name) for name in RecentRequest.__struct_fields__}
    return RecentRequest(**values)
