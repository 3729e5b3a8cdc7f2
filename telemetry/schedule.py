"""What beat runs for telemetry; settings take it as it stands."""

from __future__ import annotations

from typing import Any

BEAT_SCHEDULE: dict[str, dict[str, Any]] = {
    "telemetry-retention": {"task": "telemetry.tasks.retention", "schedule": 600.0},
    "telemetry-verify-rollups": {"task": "telemetry.tasks.verify_rollups", "schedule": 3600.0},
}
