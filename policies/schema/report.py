"""What a gateway worker says of itself once a second (`wire.WORKERS_KEY`)."""

from __future__ import annotations

from typing import Literal

import msgspec


class WorkerReport(msgspec.Struct, frozen=True):
    """`ack_ms` is from announcement to swap (None until the first one). `state` `nack`: the newest
    snapshot was refused.
    """

    id: str
    """Host, slot and process: `host-0-4711`."""
    build: str
    pid: int
    desired_version: int
    actual_version: int
    state: Literal["ack", "nack", "compiling"]
    reason: str
    """SealError reason or compile error of a NACK, else empty."""
    ack_ms: float | None
    compile_ms: float | None
    heartbeat_ms: int
    """Unix milliseconds of this report; older than 10 s shows as `unknown`, older than 10 min is
    dropped.
    """
    requests_total: int
    in_flight: int
    degraded: tuple[str, ...] = ()
    """Failure directions now in force, such as `redis_unreachable`, `spool_full`."""
