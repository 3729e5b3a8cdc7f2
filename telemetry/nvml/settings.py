"""What the hardware_telemetry skill asks of the agents, and where an agent finds its surroundings."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass

import msgspec

DEFAULT_INTERVAL_MS = 1000
MIN_INTERVAL_MS = 250
MAX_INTERVAL_MS = 60_000


class AgentSettings(msgspec.Struct, frozen=True):
    """Stands as JSON under `ace:agent:settings`; without it the defaults hold."""

    enabled: bool = True
    interval_ms: int = DEFAULT_INTERVAL_MS
    fields: tuple[str, ...] = ()
    """DCGM field names to read; empty: every one this agent knows."""

    @property
    def interval_s(self) -> float:
        return min(max(self.interval_ms, MIN_INTERVAL_MS), MAX_INTERVAL_MS) / 1000


def read_settings(raw: bytes | None, last: AgentSettings) -> AgentSettings:
    """Settings that cannot be read change nothing: the last good ones stay."""
    if raw is None:
        return AgentSettings()
    try:
        return msgspec.json.decode(raw, type=AgentSettings)
    except msgspec.MsgspecError:
        return last


@dataclass(frozen=True, slots=True)
class Surroundings:
    redis_url: str
    node: str

    @classmethod
    def from_environment(cls) -> Surroundings:
        """Raises SystemExit with one sentence when REDIS_URL is missing."""
        url = os.environ.get("REDIS_URL", "")
        if not url:
            raise SystemExit("REDIS_URL is not set: the agent does not know where to send samples.")
        return cls(url, os.environ.get("ACE_NODE_NAME", "") or socket.gethostname())
