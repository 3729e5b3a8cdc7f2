"""What the live page shows, as it stands in Redis once a second. No I/O."""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

LIVE_KEY: Final = "ace:live"
"""JSON `LiveState` of the whole installation."""

SCOPE_KEY: Final = "ace:live:scope:{scope}"
"""JSON `Panel` of some tenants, while somebody watches them."""

SCOPES_KEY: Final = "ace:live:scopes"
"""Sorted set: scope -> unix ms at which somebody last watched it."""

LIVE_GROUP: Final = "live"
"""Channel-layer group that is told of each new state: `{"type": "live.tick", "seq": n}`."""

WINDOW_S: Final = 120
RATE_S: Final = 10
"""Rates are means of the last ten whole seconds: fresh, and calm enough to read."""
LATENCY_S: Final = 60
RECENT: Final = 30


def scope_of(tenants: frozenset[str]) -> str:
    return ",".join(sorted(tenants))


class Rates(msgspec.Struct, frozen=True):
    """Per second, means of the last RATE_S whole seconds. Latencies: of the last LATENCY_S."""

    requests: float = 0.0
    errors: float = 0.0
    refused: float = 0.0
    input_tokens: float = 0.0
    output_tokens: float = 0.0
    billed_microusd: float = 0.0
    latency_p50_us: int | None = None
    latency_p95_us: int | None = None
    first_token_p50_us: int | None = None
    first_token_p95_us: int | None = None


class ModelRates(msgspec.Struct, frozen=True):
    model: str
    rates: Rates


class Series(msgspec.Struct, frozen=True):
    """One value for each of the last WINDOW_S whole seconds, oldest first."""

    end_s: int = 0
    """Unix second of the last value."""
    requests: tuple[int, ...] = ()
    errors: tuple[int, ...] = ()
    output_tokens: tuple[int, ...] = ()
    billed_microusd: tuple[int, ...] = ()


class RecentRequest(msgspec.Struct, frozen=True):
    request_id: str
    tenant_id: str
    key_id: str
    model: str
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


class Panel(msgspec.Struct, frozen=True):
    """Traffic of the whole installation, or of one tenant."""

    rates: Rates = Rates()
    series: Series = Series()
    models: tuple[ModelRates, ...] = ()
    recent: tuple[RecentRequest, ...] = ()
    last_ms: int = 0
    """When the newest request ended; 0: none in memory."""


class GpuLive(msgspec.Struct, frozen=True):
    uuid: str
    name: str
    node: str
    at_ms: int
    """Unix ms of its last sample."""
    state: str
    reason: str
    readings: dict[str, float]
    unsupported: tuple[str, ...]
    utilisation: tuple[float | None, ...]
    """Means of ten seconds over the last five minutes, oldest first; None: no sample."""
    last_xid: int = 0
    last_xid_ms: int = 0


class NodeLive(msgspec.Struct, frozen=True):
    node: str
    at_ms: int
    state: str
    reason: str
    driver: str
    interval_ms: int


class LiveState(msgspec.Struct, frozen=True):
    """Everything the live page shows, once a second."""

    epoch: str
    """Changes when the writer was restarted: sequences begin anew."""
    seq: int
    at_ms: int
    panel: Panel
    as_of_ms: int = 0
    """Everything that reached the stream before it is counted; 0: unknown."""
    backlog: int | None = None
    """Entries waiting in the stream; None: unknown."""
    workers: int | None = None
    """Gateway workers heard of in the last 10 s; None: unknown."""
    in_flight: int | None = None
    in_flight_series: tuple[int | None, ...] = ()
    nodes: tuple[NodeLive, ...] = ()
    gpus: tuple[GpuLive, ...] = ()
    dead_letters: int = 0
    storing: bool = True
    """False: the database does not answer, events wait in the stream."""


class Access(NamedTuple):
    """What one person may see live."""

    tenants: frozenset[str] | None
    """None: the traffic of all."""
    sections: frozenset[str]
    """Parts of the page, in the renderer's own words."""


class LiveFrame(msgspec.Struct, frozen=True):
    """One state as one watcher may see it."""

    state: LiveState
    panel: Panel
    """The installation's, or that of the watcher's tenants."""
    access: Access
    paused: bool = False


encode_state: Final = msgspec.json.Encoder().encode
decode_state: Final = msgspec.json.Decoder(LiveState).decode
encode_panel: Final = msgspec.json.Encoder().encode
decode_panel: Final = msgspec.json.Decoder(Panel).decode
