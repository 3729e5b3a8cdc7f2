"""Counters and histograms as plain lists, turned into Prometheus text only when somebody scrapes.

A plan keeps its series, so a request does no label look-up and takes no lock. Each worker saves its figures into its
slot once a second and goes on from them after a restart, so a scrape of any worker shows all workers of the machine
and a counter never falls.
"""

from __future__ import annotations

import logging
import os
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

BOUNDS_US: Final = (
    500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000,
    1_000_000, 2_500_000, 5_000_000, 10_000_000, 30_000_000, 60_000_000, 300_000_000,
)  # fmt: skip
FILE_NAME: Final = "metrics.msgpack"
log: Final = logging.getLogger(__name__)

Labels = tuple[tuple[str, str], ...]


class Series(msgspec.Struct, array_like=True):
    """All figures of one (tenant, key, model)."""

    labels: Labels
    requests: int = 0
    failed: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    billed_microusd: int = 0
    latency: list[int] = msgspec.field(default_factory=lambda: [0] * (len(BOUNDS_US) + 1))
    latency_sum_us: int = 0
    first_token: list[int] = msgspec.field(default_factory=lambda: [0] * (len(BOUNDS_US) + 1))
    first_token_sum_us: int = 0

    def record(self, latency_us: int, first_token_us: int) -> None:
        self.requests += 1
        self.latency[bisect_left(BOUNDS_US, latency_us)] += 1
        self.latency_sum_us += latency_us
        if first_token_us:
            self.first_token[bisect_left(BOUNDS_US, first_token_us)] += 1
            self.first_token_sum_us += first_token_us


class Figures(msgspec.Struct):
    """What one worker saves and a scrape adds up."""

    series: list[Series] = []
    counters: dict[str, dict[str, int]] = {}
    """Metric -> value of its one label -> count."""
    gauges: dict[str, float] = {}


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(Figures).decode


class Metrics:
    """Figures of this worker."""

    def __init__(self, directory: Path | None = None) -> None:
        self._path = directory / FILE_NAME if directory else None
        saved = _load(self._path) if self._path else Figures()
        self._series = {series.labels: series for series in saved.series}
        self.refusals: Counter[str] = Counter(saved.counters.get("ace_refusals_total", {}))
        self.skill_failures: Counter[str] = Counter(
            saved.counters.get("ace_skill_failures_total", {})
        )
        self.outcomes: Counter[str] = Counter(saved.counters.get("ace_outcomes_total", {}))
        self.beyond_hold: Counter[str] = Counter(
            saved.counters.get("ace_usage_beyond_hold_total", {})
        )
        self.gauges: dict[str, float] = {}

    def series(self, tenant: str, key: str, model: str) -> Series:
        labels = (("tenant", tenant), ("key", key), ("model", model))
        return self._series.setdefault(labels, Series(labels))

    @property
    def requests_total(self) -> int:
        return sum(series.requests for series in self._series.values())

    def figures(self) -> Figures:
        return Figures(
            [series for series in self._series.values() if series.requests],
            {
                "ace_refusals_total": dict(self.refusals),
                "ace_skill_failures_total": dict(self.skill_failures),
                "ace_outcomes_total": dict(self.outcomes),
                "ace_usage_beyond_hold_total": dict(self.beyond_hold),
            },
            dict(self.gauges),
        )

    def save(self) -> None:
        """Atomically; a reader sees the old file or the new one."""
        if self._path is None:
            return
        fresh = self._path.with_suffix(".new")
        try:
            fresh.write_bytes(_encode(self.figures()))
            os.replace(fresh, self._path)  # noqa: PTH105 - one call, no second Path
        except OSError as error:
            log.warning("metrics cannot be saved", extra={"reason": str(error)})


_LABEL_OF: Final = {
    "ace_refusals_total": "code",
    "ace_skill_failures_total": "skill",
    "ace_outcomes_total": "outcome",
    "ace_usage_beyond_hold_total": "pool",
}
_COUNTERS: Final = ("requests", "failed", "input_tokens", "output_tokens", "billed_microusd")
_HISTOGRAMS: Final = (
    ("ace_request_duration_seconds", "latency", "latency_sum_us"),
    ("ace_time_to_first_token_seconds", "first_token", "first_token_sum_us"),
)


def scrape(own: Metrics, own_directory: Path) -> bytes:
    """Prometheus text over this worker's live figures and the saved ones of its neighbours."""
    others = [
        _load(path)
        for path in sorted(own_directory.parent.glob(f"*/{FILE_NAME}"))
        if path.parent != own_directory
    ]
    return exposition([own.figures(), *others])


def exposition(all_figures: Iterable[Figures]) -> bytes:
    figures = list(all_figures)
    lines: list[str] = []
    series = _merged(figures)
    for name in _COUNTERS:
        lines.append(f"# TYPE ace_{name}_total counter")
        lines += [f"ace_{name}_total{{{_text(s.labels)}}} {getattr(s, name)}" for s in series]
    for metric, buckets, total in _HISTOGRAMS:
        lines.append(f"# TYPE {metric} histogram")
        for one in series:
            lines += _histogram(metric, one, getattr(one, buckets), getattr(one, total))
    lines += _labelled(figures)
    lines += _gauges(figures)
    return ("\n".join(lines) + "\n").encode()


def _merged(figures: list[Figures]) -> list[Series]:
    merged: dict[Labels, Series] = {}
    for one in (series for each in figures for series in each.series):
        total = merged.setdefault(one.labels, Series(one.labels))
        for name in (*_COUNTERS, "latency_sum_us", "first_token_sum_us"):
            setattr(total, name, getattr(total, name) + getattr(one, name))
        for name in ("latency", "first_token"):
            pairs = zip(getattr(total, name), getattr(one, name), strict=True)
            setattr(total, name, [a + b for a, b in pairs])
    return list(merged.values())


def _histogram(metric: str, series: Series, buckets: list[int], sum_us: int) -> list[str]:
    labels, lines, running = _text(series.labels), [], 0
    for bound, count in zip((*BOUNDS_US, None), buckets, strict=True):
        running += count
        edge = "+Inf" if bound is None else f"{bound / 1e6:g}"
        lines.append(f'{metric}_bucket{{{labels},le="{edge}"}} {running}')
    lines.append(f"{metric}_sum{{{labels}}} {sum_us / 1e6}")
    lines.append(f"{metric}_count{{{labels}}} {running}")
    return lines


def _labelled(figures: list[Figures]) -> list[str]:
    lines = []
    for metric, label in _LABEL_OF.items():
        total: Counter[str] = Counter()
        for each in figures:
            total.update(each.counters.get(metric, {}))
        lines.append(f"# TYPE {metric} counter")
        lines += [f"{metric}{{{_text(((label, k),))}}} {v}" for k, v in sorted(total.items())]
    return lines


def _gauges(figures: list[Figures]) -> list[str]:
    lines = []
    for metric in sorted({name for each in figures for name in each.gauges}):
        lines.append(f"# TYPE {metric} gauge")
        lines += [
            f'{metric}{{worker="{number}"}} {each.gauges[metric]:g}'
            for number, each in enumerate(figures)
            if metric in each.gauges
        ]
    return lines


def _text(labels: Labels) -> str:
    return ",".join(f'{name}="{_escape(value)}"' for name, value in labels)


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _load(path: Path) -> Figures:
    try:
        return _decode(path.read_bytes())
    except (OSError, msgspec.MsgspecError):
        return Figures()
