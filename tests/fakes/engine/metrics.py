"""Counting what a fake engine does, and writing it as a Prometheus page. The dialects choose the names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

Labels = Mapping[str, str]

SECONDS = (0.001, 0.005, 0.01, 0.02, 0.04, 0.08, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 40.0, 160.0)
TOKENS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0)


class Histogram:
    __slots__ = ("buckets", "count", "counts", "total")

    def __init__(self, buckets: Sequence[float]) -> None:
        self.buckets = buckets
        self.counts = [0] * len(buckets)
        self.count = 0
        self.total = 0.0

    def observe(self, value: float) -> None:
        self.count += 1
        self.total += value
        for index, bound in enumerate(self.buckets):
            if value <= bound:
                self.counts[index] += 1
                break


class EngineStats:
    """Everything the metrics pages are made of. Requests are counted when they end, as the engines do."""

    def __init__(self, started_at: float) -> None:
        self.started_at = started_at
        self.prompt_tokens = 0
        self.cached_tokens = 0
        self.queried_tokens = 0
        self.generated_tokens = 0
        self.ended: Counter[str] = Counter()
        self.rejected = 0
        self.adapters: tuple[str, ...] = ()
        self.ttft = Histogram(SECONDS)
        self.token_gap = Histogram(SECONDS)
        self.latency = Histogram(SECONDS)
        self.queue_time = Histogram(SECONDS)
        self.request_prompt_tokens = Histogram(TOKENS)
        self.request_generated_tokens = Histogram(TOKENS)


class Sample(NamedTuple):
    suffix: str
    labels: Labels
    value: float


class Family(NamedTuple):
    name: str
    kind: Literal["counter", "gauge", "histogram"]
    samples: list[Sample]


def gauge(name: str, labels: Labels, value: float) -> Family:
    return Family(name, "gauge", [Sample("", labels, value)])


def counter(name: str, labels: Labels, value: float) -> Family:
    """`name` is given without the `_total` that the page shows."""
    return Family(name + "_total", "counter", [Sample("", labels, value)])


def by_label(name: str, labels: Labels, label: str, values: Mapping[str, float]) -> Family:
    """A counter with one series for each value of `label`."""
    samples = [Sample("", {**labels, label: key}, value) for key, value in values.items()]
    return Family(name + "_total", "counter", samples)


def histogram(name: str, labels: Labels, data: Histogram) -> Family:
    samples, running = [], 0
    for bound, count in zip(data.buckets, data.counts, strict=True):
        running += count
        samples.append(Sample("_bucket", {**labels, "le": str(bound)}, running))
    samples.append(Sample("_bucket", {**labels, "le": "+Inf"}, data.count))
    samples += [Sample("_count", labels, data.count), Sample("_sum", labels, data.total)]
    return Family(name, "histogram", samples)


def render(families: Sequence[Family], absent: Sequence[str]) -> str:
    """The page, without the families named in `absent`."""
    lines: list[str] = []
    for family in families:
        if family.name in absent or family.name.removesuffix("_total") in absent:
            continue
        lines += [
            f"# HELP {family.name} As the engine of this name counts it.",
            f"# TYPE {family.name} {family.kind}",
        ]
        lines += [
            f"{family.name}{s.suffix}{_labels(s.labels)} {float(s.value)}" for s in family.samples
        ]
    return "\n".join(lines) + "\n"


def _labels(labels: Labels) -> str:
    if not labels:
        return ""
    inside = ",".join(f'{name}="{value}"' for name, value in sorted(labels.items()))
    return "{" + inside + "}"
