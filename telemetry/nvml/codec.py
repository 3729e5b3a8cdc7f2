"""What an agent says of its node, once an interval: msgpack arrays on `events.SAMPLE_STREAM`."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

NodeState = Literal["ok", "no_driver", "driver_error", "off"]
"""no_driver: no NVIDIA driver on this host. driver_error: there is one and it does not answer.
off: the hardware_telemetry skill is switched off."""

GpuState = Literal["ok", "lost"]


class GpuSample(msgspec.Struct, array_like=True, frozen=True):
    """One GPU at one moment. A reading that is absent is unknown, never 0."""

    uuid: str
    index: int
    name: str
    state: GpuState = "ok"
    reason: str = ""
    """Why it is lost, in the driver's words."""
    readings: dict[str, float] = {}
    """DCGM field name -> value. Percent, bytes, watts, °C, MHz, joules; counters since driver load.
    `clocks_event_reasons` is the driver's bit mask."""
    unsupported: tuple[str, ...] = ()
    """Readings this GPU and driver cannot give at all."""
    xid_errors: tuple[int, ...] = ()
    """Driver error codes since the last sample."""


class NodeSample(msgspec.Struct, array_like=True, frozen=True):
    node: str
    at_ms: int
    state: NodeState
    reason: str = ""
    """In words, for a person; empty while all is well."""
    driver: str = ""
    interval_ms: int = 1000
    gpus: tuple[GpuSample, ...] = ()


encode: Final = msgspec.msgpack.Encoder().encode
decode: Final = msgspec.msgpack.Decoder(NodeSample).decode
