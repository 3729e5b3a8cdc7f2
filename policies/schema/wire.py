"""Names under which the control plane and the workers meet in Redis. Both sides import them from
here.

Redis holds nothing that cannot be rebuilt: the snapshot stands in PostgreSQL and on each worker's
disk, the revocations in both, the heartbeats are sent again every second.
"""

from __future__ import annotations

from typing import Final

SNAPSHOT_KEY: Final = "ace:snapshot"
"""Hash: `version` (decimal) and `envelope` (bytes of `sealing.seal`). Written by the console, only
ever upwards.
"""

SNAPSHOT_CHANNEL: Final = "ace:snapshot:announce"
"""Pub/sub: the decimal version, after SNAPSHOT_KEY was written. Workers also poll the key every
second.
"""

REVOCATIONS_KEY: Final = "ace:revocations"
"""Sorted set: hex key digest -> unix milliseconds of the revocation. Polled with the snapshot."""

REVOCATIONS_CHANNEL: Final = "ace:revocations:announce"
"""Pub/sub: the hex digest revoked."""

WORKERS_KEY: Final = "ace:workers"
"""Hash: worker id -> JSON `WorkerReport` (policies.schema.report). Written by each worker every
second.
"""

BUDGET_KEY: Final = "ace:budget:{budget_id}:{window_start_ms}"
"""Hash: state of one budget window, changed only by the lease scripts of `gateway.limits`."""

BUDGET_PRIME_LIST: Final = "ace:budget:prime"
"""List of `budget_id:window_start_ms` whose state Redis lost; `telemetry.ingest` answers from the
ledger.
"""

AGENT_SETTINGS_KEY: Final = "ace:agent:settings"
"""JSON `telemetry.nvml.settings.AgentSettings`: what the hardware_telemetry skill asks of the NVML
agents.
"""
