"""A live state in the words and numbers of the page. Pure: what is absent is said to be, never 0."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from console.fleet import charts
from console.fleet.charts import Cell, gigabytes, heat_strip, whole_percent
from console.ui import format as form
from console.ui.charts import Spark, spark
from policies.skills.hardware_telemetry.compile import headroom
from telemetry.state import GpuLive, LiveFrame, NodeLive, RecentRequest

QUIET_MS: Final = 300_000
"""Without a request for so long, the page says so and offers the next step."""
LATE_MS: Final = 2_000
THROTTLE: Final[dict[int, str]] = {
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "heat (driver)",
    0x40: "heat (hardware)",
    0x80: "power brake",
}
"""Bits of `clocks_event_reasons` that take speed away; idle and set clocks do not."""
NEARLY_NONE: Final = 0.05
POWER_WARNS: Final = 95
"""Percent of the limit."""
BINDING: Final = {"compute": "compute", "memory": "memory", "power": "power", "thermal": "heat"}
OUTCOMES: Final[dict[str, tuple[str, str]]] = {
    "ok": ("Served", ""),
    "client_gone": ("Caller left", ""),
    "upstream_error": ("Engine failed", "bad"),
    "upstream_refused": ("Engine refused", "warn"),
    "timeout": ("Timed out", "bad"),
    "interrupted": ("Interrupted", "bad"),
    "budget_cut": ("Cut: budget", "warn"),
    "refused": ("Blocked", "bad"),
}
"""Outcome -> words and tone of its chip; without a tone it is no news."""

Name = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Figure:
    label: str
    value: str
    unit: str
    note: str
    spark: Spark | None = None


def figures(frame: LiveFrame) -> list[Figure]:
    rates, series = frame.panel.rates, frame.panel.series
    first = [
        Figure(
            "Requests per second",
            f"{rates.requests:,.1f}",
            "",
            _share(rates.errors, rates.requests),
            spark(series.requests),
        ),
    ]
    if frame.access.tenants is None:
        first.append(_in_flight(frame))
    return [
        *first,
        _latency("Time to first token, p95", rates.first_token_p95_us, rates.first_token_p50_us),
        _latency("Latency, p95", rates.latency_p95_us, rates.latency_p50_us),
        Figure(
            "Tokens per second",
            f"{rates.output_tokens:,.0f}",
            "out",
            f"{rates.input_tokens:,.0f} in",
            spark(series.output_tokens),
        ),
        Figure(
            "Billed per second",
            form.money(round(rates.billed_microusd)),
            "",
            f"{form.money(round(rates.billed_microusd * 3600))} per hour",
            spark(series.billed_microusd),
        ),
    ]


def _share(errors: float, requests: float) -> str:
    if not requests:
        return "none in the last 10 s"
    return f"{form.percent(errors / requests)} failed" if errors else "none failed"


def _in_flight(frame: LiveFrame) -> Figure:
    state = frame.state
    known = [value for value in state.in_flight_series if value is not None]
    if state.in_flight is None:
        return Figure("In flight", form.UNKNOWN, "", "no worker has reported in 10 s")
    workers = f"on {state.workers} worker{'s' if state.workers != 1 else ''}"
    return Figure("In flight", form.number(state.in_flight), "", workers, spark(known))


def _latency(label: str, p95_us: int | None, p50_us: int | None) -> Figure:
    if p95_us is None or p50_us is None:
        return Figure(label, "–", "", "no answer in the last minute")
    return Figure(
        label, f"{p95_us / 1000:,.0f}", "ms", f"median {form.milliseconds(p50_us / 1000)}"
    )


@dataclass(frozen=True, slots=True)
class ModelRow:
    model: str
    requests: str
    errors: str
    tokens: str
    billed: str
    first_token: str
    latency: str


def model_rows(frame: LiveFrame) -> list[ModelRow]:
    return [
        ModelRow(
            item.model,
            f"{item.rates.requests:,.1f}",
            f"{item.rates.errors:,.1f}",
            f"{item.rates.output_tokens:,.0f}",
            form.money(round(item.rates.billed_microusd)),
            _ms_or_dash(item.rates.first_token_p95_us),
            _ms_or_dash(item.rates.latency_p95_us),
        )
        for item in frame.panel.models
    ]


def _ms_or_dash(micros: int | None) -> str:
    return "–" if micros is None else f"{micros / 1000:,.0f}"


@dataclass(frozen=True, slots=True)
class RequestRow:
    request_id: str
    at: str
    tenant: str
    key: str
    model: str
    words: str
    tone: str
    reason: str
    input_tokens: str
    output_tokens: str
    cost: str
    cost_exact: str
    first_token: str
    total: str


def request_rows(frame: LiveFrame, tenant_name: Name, key_name: Name) -> list[RequestRow]:
    return [_request_row(item, tenant_name, key_name) for item in frame.panel.recent]


def _request_row(item: RecentRequest, tenant_name: Name, key_name: Name) -> RequestRow:
    words, tone = OUTCOMES.get(item.outcome, (item.outcome, "warn"))
    refused = item.outcome == "refused"
    return RequestRow(
        request_id=item.request_id,
        at=charts.clock_ms(item.finished_ms),
        tenant=tenant_name(item.tenant_id),
        key=key_name(item.key_id),
        model=item.model,
        words=words,
        tone=tone,
        reason=item.code.replace("_", " "),
        input_tokens="–" if refused else form.number(item.input_tokens),
        output_tokens="–" if refused else form.number(item.output_tokens),
        cost=form.money(item.billed_microusd),
        cost_exact=form.money_exact(item.billed_microusd),
        first_token=_ms_or_dash(item.first_token_us or None),
        total="–" if refused else f"{item.latency_us / 1000:,.0f}",
    )


@dataclass(frozen=True, slots=True)
class GpuRow:
    short: str
    uuid: str
    name: str
    node: str
    cells: tuple[Cell, ...]
    strip_label: str
    fresh: bool
    trouble: str
    """Why there are no readings now, in words; empty: there are."""
    utilisation: str
    memory: str
    power: str
    power_share: float | None
    """Percent of the limit; None: one of the two is unknown."""
    power_tone: str
    temperature: str
    throttled_by: tuple[str, ...]
    throttle_words: str
    """In place of causes: none, not supported, unknown."""
    headroom: str
    binding: str
    tight: bool
    last_error: str
    unsupported: str


def gpu_rows(frame: LiveFrame) -> list[GpuRow]:
    intervals = {node.node: node.interval_ms for node in frame.state.nodes}
    return [
        _gpu_row(gpu, frame.state.at_ms, intervals.get(gpu.node, 1000)) for gpu in frame.state.gpus
    ]


def _gpu_row(gpu: GpuLive, now_ms: int, interval_ms: int) -> GpuRow:
    trouble = _trouble(gpu, now_ms, interval_ms)
    readings = {} if trouble else gpu.readings
    room = headroom(readings)
    say = _Reader(readings, gpu.unsupported)
    causes = _throttles(int(readings.get("clocks_event_reasons", 0)))
    power_share = _power_share(readings)
    return GpuRow(
        short=gpu.uuid.removeprefix("GPU-")[:8],
        uuid=gpu.uuid,
        name=gpu.name,
        node=gpu.node,
        cells=heat_strip(gpu.utilisation),
        strip_label=_strip_label(gpu),
        fresh=not trouble,
        trouble=trouble,
        utilisation=say("gpu_util", lambda value: f"{value:.0f} %"),
        memory=_memory(say, readings),
        power=say("power_usage", lambda value: f"{value:.0f} W"),
        power_share=power_share,
        power_tone="w" if power_share is not None and power_share >= POWER_WARNS else "q",
        temperature=say("gpu_temp", lambda value: f"{value:.0f} °C"),
        throttled_by=causes,
        throttle_words=say("clocks_event_reasons", lambda _: "none"),
        headroom=form.UNKNOWN if room.ratio is None else whole_percent(room.ratio),
        binding=BINDING.get(room.binding or "", ""),
        tight=room.ratio is not None and room.ratio < NEARLY_NONE,
        last_error=_last_error(gpu, now_ms),
        unsupported=", ".join(gpu.unsupported),
    )


@dataclass(frozen=True, slots=True)
class _Reader:
    readings: Mapping[str, float]
    unsupported: tuple[str, ...]

    def __call__(self, field: str, words: Callable[[float], str]) -> str:
        """The reading in words; "not supported" is final, "unknown" may pass."""
        if field in self.readings:
            return words(self.readings[field])
        return "not supported" if field in self.unsupported else form.UNKNOWN


def _memory(say: _Reader, readings: Mapping[str, float]) -> str:
    total = readings.get("fb_total")
    whole = form.UNKNOWN if total is None else f"{gigabytes(total)} GB"
    return say("fb_used", lambda used: f"{gigabytes(used)} of {whole}")


def _power_share(readings: Mapping[str, float]) -> float | None:
    usage, limit = readings.get("power_usage"), readings.get("enforced_power_limit")
    if usage is None or not limit:
        return None
    return round(min(100.0, usage / limit * 100), 1)


def _throttles(mask: int) -> tuple[str, ...]:
    return tuple(words for bit, words in THROTTLE.items() if mask & bit)


def _trouble(gpu: GpuLive, now_ms: int, interval_ms: int) -> str:
    age_ms = now_ms - gpu.at_ms
    if age_ms > 3 * interval_ms + LATE_MS:
        return f"No sample for {form.duration(age_ms / 1000)}"
    return f"Lost: {gpu.reason}" if gpu.state == "lost" else ""


def _strip_label(gpu: GpuLive) -> str:
    known = [value for value in gpu.utilisation if value is not None]
    if not known:
        return "No utilisation known in the last 5 minutes"
    return f"Utilisation in the last 5 minutes: mean {sum(known) / len(known):.0f} %"


def _last_error(gpu: GpuLive, now_ms: int) -> str:
    if not gpu.last_xid:
        return ""
    return f"XID {gpu.last_xid}, {form.duration((now_ms - gpu.last_xid_ms) / 1000)} ago"


@dataclass(frozen=True, slots=True)
class NodeNote:
    """A node without readings, and what that means."""

    tone: str
    title: str
    text: str


def node_notes(frame: LiveFrame) -> list[NodeNote]:
    notes = [_node_note(node, frame.state.at_ms) for node in frame.state.nodes]
    return [note for note in notes if note is not None]


def _node_note(node: NodeLive, now_ms: int) -> NodeNote | None:
    age_ms = now_ms - node.at_ms
    if age_ms > max(3 * node.interval_ms, 15_000) + LATE_MS:
        text = f"Last heard of {form.duration(age_ms / 1000)} ago. Is its agent running?"
        return NodeNote("warn", f"The agent on {node.node} is silent.", text)
    if node.state == "no_driver":
        text = f"{node.node} says: {node.reason}. Its GPUs, if it has any, cannot be measured."
        return NodeNote("", f"No NVIDIA driver found on {node.node}.", text)
    if node.state == "driver_error":
        text = f"{node.reason}. Readings come back by themselves when it answers."
        return NodeNote("bad", f"The NVIDIA driver on {node.node} has failed.", text)
    if node.state == "off":
        return NodeNote("", f"Sampling on {node.node} is off.", f"{node.reason}.")
    return None
