"""What is sampled, how often, and from where on it is worth a person's attention."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from policies.contract.config import SkillConfig
from policies.schema.base import Merge, Ui
from policies.schema.units import Ratio

Reading = Literal[
    "gpu_util",
    "mem_copy_util",
    "fb_used",
    "fb_free",
    "fb_total",
    "fb_reserved",
    "power_usage",
    "enforced_power_limit",
    "total_energy_consumption",
    "gpu_temp",
    "memory_temp",
    "slowdown_temp",
    "sm_clock",
    "mem_clock",
    "clocks_event_reasons",
    "ecc_sbe_volatile_total",
    "ecc_dbe_volatile_total",
    "uncorrectable_remapped_rows",
    "row_remap_pending",
    "row_remap_failure",
    "pcie_tx_throughput",
    "pcie_rx_throughput",
    "pcie_replay_counter",
    "nvlink_bandwidth_total",
    "xid_errors",
]
"""DCGM field names without `DCGM_FI_DEV_`."""

EVERY_READING: tuple[Reading, ...] = Reading.__args__  # type: ignore[attr-defined]
XidCode = Annotated[int, Field(ge=1, le=1_000)]


class HardwareTelemetryConfig(SkillConfig):
    """One setting for the installation: GPUs belong to nobody's key."""

    interval_ms: Annotated[int, Ui(group="Sampling", widget="duration", unit="ms")] = Field(
        default=1_000,
        ge=250,
        le=60_000,
        description="Time between two samples of a GPU. Counters are read every tenth time.",
    )
    fields: Annotated[
        tuple[Reading, ...], Ui(group="Sampling", widget="choices"), Merge("union")
    ] = Field(
        default=EVERY_READING,
        description="Readings to take. What a GPU does not support is shown as unknown, never 0.",
    )
    temperature_warning_c: Annotated[int, Ui(group="Alerts", unit="°C")] = Field(
        default=83,
        ge=30,
        le=120,
        description="GPU temperature in degrees Celsius from which a warning is raised.",
    )
    temperature_critical_c: Annotated[int, Ui(group="Alerts", unit="°C")] = Field(
        default=90,
        ge=30,
        le=120,
        description="GPU temperature in degrees Celsius from which the alert is critical.",
    )
    temperature_hysteresis_c: Annotated[int, Ui(group="Alerts", unit="°C")] = Field(
        default=3,
        ge=0,
        le=30,
        description="Degrees below its threshold at which a temperature alert may end.",
    )
    memory_headroom_ratio: Annotated[Ratio, Ui(group="Alerts", widget="ratio")] = Field(
        default=0.02,
        description="Free share of GPU memory under which a warning is raised. Engines take most "
        "of the memory at start, so a small share is normal.",
    )
    memory_hysteresis_ratio: Annotated[Ratio, Ui(group="Alerts", widget="ratio")] = Field(
        default=0.01,
        description="Share above its threshold at which a memory alert may end.",
    )
    ecc_uncorrected_limit: Annotated[int, Ui(group="Alerts")] = Field(
        default=0,
        ge=0,
        le=1_000_000,
        description="Uncorrected ECC errors since the driver was loaded that are tolerated.",
    )
    xid_critical: Annotated[tuple[XidCode, ...], Ui(group="Alerts"), Merge("union")] = Field(
        default=(48, 62, 64, 74, 79, 95, 119, 120, 140, 154, 171, 172),
        description="Driver error codes (XID) after which the GPU must not be trusted.",
    )
    xid_warning: Annotated[tuple[XidCode, ...], Ui(group="Alerts"), Merge("union")] = Field(
        default=(63, 92, 94),
        description="Driver error codes (XID) to watch. Others are recorded as information.",
    )
    raise_after_samples: Annotated[int, Ui(group="Alerts")] = Field(
        default=3,
        ge=1,
        le=600,
        description="Samples in a row that must be over a threshold before an alert is raised.",
    )
    clear_after_samples: Annotated[int, Ui(group="Alerts")] = Field(
        default=10,
        ge=1,
        le=3_600,
        description="Samples in a row that must be well again before the alert ends.",
    )

    @model_validator(mode="after")
    def _critical_is_hotter_than_warning(self) -> Self:
        if self.temperature_critical_c < self.temperature_warning_c:
            raise ValueError("temperature_critical_c must be at least temperature_warning_c")
        return self
