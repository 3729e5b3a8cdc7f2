"""Hardware telemetry: what the GPUs say of themselves, and when a person should look."""

from __future__ import annotations

from policies.contract.manifest import Skill
from policies.skills.hardware_telemetry.compile import compile_plan
from policies.skills.hardware_telemetry.config import HardwareTelemetryConfig

SKILL = Skill(
    slug="hardware_telemetry",
    title="GPU hardware telemetry",
    summary="Samples the GPUs through NVML and raises alerts that do not flap.",
    layer="L2",
    role="observer",
    config=HardwareTelemetryConfig,
    compile=compile_plan,
    runtime="policies.skills.hardware_telemetry.runtime:HardwareTelemetry",
    on_error="open",
)
