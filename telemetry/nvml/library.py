"""The driver's library, asked through the real binding: what is there, and what of it can be read.

A reading is probed once for each GPU. What it does not support is remembered and never asked again,
so that unsupported shows as unknown and costs nothing. NVML is thread-safe but may block (PCIe
counters sleep 20 ms): call it from threads, never from an event loop.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import pynvml as nvml

Readings = dict[str, float]
Read = Callable[[Any], Readings]

_UNSUPPORTED: Final = frozenset(
    {
        nvml.NVML_ERROR_NOT_SUPPORTED,
        nvml.NVML_ERROR_NO_PERMISSION,
        nvml.NVML_ERROR_FUNCTION_NOT_FOUND,
        nvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
        nvml.NVML_ERROR_INVALID_ARGUMENT,
    }
)
_LOST: Final = frozenset({nvml.NVML_ERROR_GPU_IS_LOST, nvml.NVML_ERROR_RESET_REQUIRED})
_NO_DRIVER: Final = frozenset(
    {nvml.NVML_ERROR_LIBRARY_NOT_FOUND, nvml.NVML_ERROR_DRIVER_NOT_LOADED}
)


class DriverMissingError(Exception):
    """No NVIDIA driver on this host; the text says how we know."""


class DriverFailedError(Exception):
    """There is a driver and it does not answer; the text is the driver's own."""


class GpuLostError(Exception):
    """This GPU fell off the bus or waits for a reset."""


class Group(NamedTuple):
    """Readings that come from one call."""

    names: tuple[str, ...]
    read: Read
    slow: bool = False
    """A counter, or a call that blocks: read every tenth time."""


@dataclass(frozen=True, slots=True)
class Gpu:
    handle: Any
    uuid: str
    index: int
    name: str
    groups: tuple[Group, ...]
    unsupported: tuple[str, ...]


def open_driver() -> str:
    """Load and initialise; the driver's version. Raises DriverMissingError or DriverFailedError."""
    try:
        nvml.nvmlInit()
        return str(nvml.nvmlSystemGetDriverVersion())
    except nvml.NVMLError as error:
        if error.value in _NO_DRIVER:
            raise DriverMissingError(f"No NVIDIA driver on this host ({error})") from error
        raise DriverFailedError(f"The NVIDIA driver does not answer ({error})") from error


def close_driver() -> None:
    with suppress(nvml.NVMLError):  # gone already is what was wanted
        nvml.nvmlShutdown()


def find_gpus(wanted: Sequence[str]) -> tuple[Gpu, ...]:
    """Every GPU with what it can tell of `wanted` (empty: everything). Raises DriverFailedError."""
    groups = [group for group in GROUPS if not wanted or set(group.names) & set(wanted)]
    try:
        count = nvml.nvmlDeviceGetCount()
    except nvml.NVMLError as error:
        raise DriverFailedError(f"The NVIDIA driver does not answer ({error})") from error
    found = (_open_gpu(index, groups, wanted) for index in range(count))
    return tuple(gpu for gpu in found if gpu is not None)


def _open_gpu(index: int, groups: Sequence[Group], wanted: Sequence[str]) -> Gpu | None:
    """None: it cannot even be named, so there is nothing to say of it."""
    try:
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        uuid, name = str(nvml.nvmlDeviceGetUUID(handle)), str(nvml.nvmlDeviceGetName(handle))
    except nvml.NVMLError:
        return None
    usable = [(group, _supported(group, handle)) for group in groups]
    known = {item for _, names in usable for item in names}
    asked = [item for group in groups for item in group.names if not wanted or item in wanted]
    return Gpu(
        handle,
        uuid,
        index,
        name,
        tuple(group for group, names in usable if names),
        tuple(item for item in asked if item not in known),
    )


def _supported(group: Group, handle: Any) -> frozenset[str]:
    try:
        return frozenset(group.read(handle))
    except nvml.NVMLError as error:
        # A passing fault (timeout, lost GPU) says nothing of what the GPU can do.
        return frozenset() if error.value in _UNSUPPORTED else frozenset(group.names)


def read_gpu(gpu: Gpu, *, slow: bool) -> Readings:
    """All fast readings, and the slow ones on demand. A failed call leaves its readings out.

    Raises GpuLostError.
    """
    readings: Readings = {}
    for group in gpu.groups:
        if group.slow and not slow:
            continue
        try:
            readings |= group.read(gpu.handle)
        except nvml.NVMLError as error:
            if error.value in _LOST:
                raise GpuLostError(str(error)) from error
    return readings


class ErrorEvents:
    """Driver errors (XID) as they happen. One thread waits on it."""

    def __init__(self, gpus: Sequence[Gpu]) -> None:
        """Raises DriverFailedError when the driver has no events at all."""
        try:
            self._set = nvml.nvmlEventSetCreate()
        except nvml.NVMLError as error:
            raise DriverFailedError(str(error)) from error
        self.watched: Final = tuple(gpu.uuid for gpu in gpus if self._watch(gpu))

    def _watch(self, gpu: Gpu) -> bool:
        mask = nvml.nvmlEventTypeXidCriticalError
        try:
            if not nvml.nvmlDeviceGetSupportedEventTypes(gpu.handle) & mask:
                return False
            nvml.nvmlDeviceRegisterEvents(gpu.handle, mask, self._set)
        except nvml.NVMLError:
            return False
        return True

    def wait(self, timeout_ms: int) -> tuple[str, int] | None:
        """(GPU's UUID, XID code), or None when nothing happened. Raises DriverFailedError."""
        try:
            event = nvml.nvmlEventSetWait_v2(self._set, timeout_ms)
            return str(nvml.nvmlDeviceGetUUID(event.device)), int(event.eventData)
        except nvml.NVMLError as error:
            if error.value == nvml.NVML_ERROR_TIMEOUT:
                return None
            if error.value in _LOST:  # the samples say which; the other GPUs still have errors
                time.sleep(timeout_ms / 1000)
                return None
            raise DriverFailedError(str(error)) from error

    def close(self) -> None:
        with suppress(nvml.NVMLError):  # a driver that went away took the set with it
            nvml.nvmlEventSetFree(self._set)


def _utilisation(handle: Any) -> Readings:
    rates = nvml.nvmlDeviceGetUtilizationRates(handle)
    return {"gpu_util": rates.gpu, "mem_copy_util": rates.memory}


def _memory(handle: Any) -> Readings:
    """Version 2 tells what the driver keeps for itself; version 1 counts that as used."""
    try:
        memory = nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2)
    except nvml.NVMLError as error:
        if error.value not in _UNSUPPORTED:
            raise
        memory = nvml.nvmlDeviceGetMemoryInfo(handle)
        return {"fb_used": memory.used, "fb_free": memory.free, "fb_total": memory.total}
    return {
        "fb_used": memory.used,
        "fb_free": memory.free,
        "fb_total": memory.total,
        "fb_reserved": memory.reserved,
    }


def _power(handle: Any) -> Readings:
    return {"power_usage": nvml.nvmlDeviceGetPowerUsage(handle) / 1000}


def _power_limit(handle: Any) -> Readings:
    return {"enforced_power_limit": nvml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1000}


def _energy(handle: Any) -> Readings:
    return {"total_energy_consumption": nvml.nvmlDeviceGetTotalEnergyConsumption(handle) / 1000}


def _temperature(handle: Any) -> Readings:
    """The newer call first; drivers before 570 know only the older."""
    sensor = nvml.NVML_TEMPERATURE_GPU
    try:
        return {"gpu_temp": nvml.nvmlDeviceGetTemperatureV(handle, sensor)}
    except nvml.NVMLError as error:
        if error.value not in _UNSUPPORTED:
            raise
        return {"gpu_temp": nvml.nvmlDeviceGetTemperature(handle, sensor)}


def _slowdown(handle: Any) -> Readings:
    kind = nvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN
    return {"slowdown_temp": nvml.nvmlDeviceGetTemperatureThreshold(handle, kind)}


def _sm_clock(handle: Any) -> Readings:
    return {"sm_clock": nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM)}


def _memory_clock(handle: Any) -> Readings:
    return {"mem_clock": nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM)}


def _throttle(handle: Any) -> Readings:
    try:
        mask = nvml.nvmlDeviceGetCurrentClocksEventReasons(handle)
    except nvml.NVMLError as error:
        if error.value not in _UNSUPPORTED:
            raise
        mask = nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)
    return {"clocks_event_reasons": mask}


def _corrected(handle: Any) -> Readings:
    kind, scope = nvml.NVML_MEMORY_ERROR_TYPE_CORRECTED, nvml.NVML_VOLATILE_ECC
    return {"ecc_sbe_volatile_total": nvml.nvmlDeviceGetTotalEccErrors(handle, kind, scope)}


def _uncorrected(handle: Any) -> Readings:
    kind, scope = nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC
    return {"ecc_dbe_volatile_total": nvml.nvmlDeviceGetTotalEccErrors(handle, kind, scope)}


def _remapped_rows(handle: Any) -> Readings:
    _, uncorrectable, pending, failed = nvml.nvmlDeviceGetRemappedRows(handle)
    return {
        "uncorrectable_remapped_rows": uncorrectable,
        "row_remap_pending": pending,
        "row_remap_failure": failed,
    }


def _pcie_tx(handle: Any) -> Readings:
    counter = nvml.NVML_PCIE_UTIL_TX_BYTES
    return {"pcie_tx_throughput": nvml.nvmlDeviceGetPcieThroughput(handle, counter) * 1024}


def _pcie_rx(handle: Any) -> Readings:
    counter = nvml.NVML_PCIE_UTIL_RX_BYTES
    return {"pcie_rx_throughput": nvml.nvmlDeviceGetPcieThroughput(handle, counter) * 1024}


def _memory_temperature(handle: Any) -> Readings:
    return _fields(handle, {"memory_temp": (nvml.NVML_FI_DEV_MEMORY_TEMP,)})


def _replays(handle: Any) -> Readings:
    return _fields(handle, {"pcie_replay_counter": (nvml.NVML_FI_DEV_PCIE_REPLAY_COUNTER,)})


def _nvlink(handle: Any) -> Readings:
    both = (
        nvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX,
        nvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX,
    )
    kib = _fields(handle, {"nvlink_bandwidth_total": both})
    return {name: value * 1024 for name, value in kib.items()}


def _fields(handle: Any, wanted: dict[str, tuple[int, ...]]) -> Readings:
    """Sums of field values; each field has its own verdict, and one without leaves its sum out."""
    ids = [field for fields in wanted.values() for field in fields]
    values = {item.fieldId: item for item in nvml.nvmlDeviceGetFieldValues(handle, ids)}
    readings: Readings = {}
    for name, fields in wanted.items():
        if all(values[field].nvmlReturn == nvml.NVML_SUCCESS for field in fields):
            readings[name] = sum(_number(values[field]) for field in fields)
    return readings


_MEMBERS: Final = {
    nvml.NVML_VALUE_TYPE_DOUBLE: "dVal",
    nvml.NVML_VALUE_TYPE_UNSIGNED_INT: "uiVal",
    nvml.NVML_VALUE_TYPE_UNSIGNED_LONG: "ulVal",
    nvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG: "ullVal",
    nvml.NVML_VALUE_TYPE_SIGNED_LONG_LONG: "sllVal",
}


def _number(item: Any) -> float:
    return float(getattr(item.value, _MEMBERS.get(item.valueType, "siVal")))


GROUPS: Final[tuple[Group, ...]] = (
    Group(("gpu_util", "mem_copy_util"), _utilisation),
    Group(("fb_used", "fb_free", "fb_total", "fb_reserved"), _memory),
    Group(("power_usage",), _power),
    Group(("gpu_temp",), _temperature),
    Group(("memory_temp",), _memory_temperature),
    Group(("sm_clock",), _sm_clock),
    Group(("mem_clock",), _memory_clock),
    Group(("clocks_event_reasons",), _throttle),
    Group(("enforced_power_limit",), _power_limit, slow=True),
    Group(("slowdown_temp",), _slowdown, slow=True),
    Group(("total_energy_consumption",), _energy, slow=True),
    Group(("ecc_sbe_volatile_total",), _corrected, slow=True),
    Group(("ecc_dbe_volatile_total",), _uncorrected, slow=True),
    Group(
        ("uncorrectable_remapped_rows", "row_remap_pending", "row_remap_failure"),
        _remapped_rows,
        slow=True,
    ),
    Group(("pcie_tx_throughput",), _pcie_tx, slow=True),
    Group(("pcie_rx_throughput",), _pcie_rx, slow=True),
    Group(("pcie_replay_counter",), _replays, slow=True),
    Group(("nvlink_bandwidth_total",), _nvlink, slow=True),
)
XID: Final = "xid_errors"
