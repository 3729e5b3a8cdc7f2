"""The NVML stub behind the real binding, in a process of its own, as an agent would load it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.nvml import DRIVER_NOT_LOADED, EVENT_XID, GPU_IS_LOST, NvmlStub

PROBE = """
import json, sys, pynvml as n
def said(call, *arguments):
    try:
        answer = call(*arguments)
    except n.NVMLError as error:
        return {"error": error.value}
    if isinstance(answer, (int, float, str, list, tuple)):
        return answer
    return {k: getattr(answer, k) for k, _ in answer._fields_}
def gpu(index):
    h = n.nvmlDeviceGetHandleByIndex(index)
    calls = "Name UUID UtilizationRates PowerUsage TotalEnergyConsumption EnforcedPowerLimit"
    calls += " RemappedRows EccMode MigMode"
    found = {name: said(getattr(n, "nvmlDeviceGet" + name), h) for name in calls.split()}
    found["MemoryV2"] = said(n.nvmlDeviceGetMemoryInfo, h, n.nvmlMemory_v2)
    found["MemoryV1"] = said(n.nvmlDeviceGetMemoryInfo, h)
    found["TemperatureV"] = said(n.nvmlDeviceGetTemperatureV, h, 0)
    found["Margin"] = said(n.nvmlDeviceGetMarginTemperature, h)
    found["Retired"] = said(n.nvmlDeviceGetRetiredPages, h, 1)
    found["Processes"] = [[p.pid, p.usedGpuMemory] for p in n.nvmlDeviceGetComputeRunningProcesses(h)]
    found["Fields"] = [[v.nvmlReturn, v.value.ullVal] for v in n.nvmlDeviceGetFieldValues(h, [82, 83])]
    found["Gpm"] = n.nvmlGpmQueryDeviceSupport(h).isSupportedDevice
    return found
n.nvmlInit()
print(json.dumps({"driver": n.nvmlSystemGetDriverVersion(), "gpus": [gpu(i) for i in range(n.nvmlDeviceGetCount())]}))
"""

EVENTS = """
import json, sys, pynvml as n
n.nvmlInit()
h = n.nvmlDeviceGetHandleByIndex(0)
events = n.nvmlEventSetCreate()
n.nvmlDeviceRegisterEvents(h, n.nvmlEventTypeXidCriticalError, events)
try:
    n.nvmlEventSetWait_v2(events, 20)
except n.NVMLError as error:
    print(error.value, flush=True)
event = n.nvmlEventSetWait_v2(events, 5000)
print(json.dumps([n.nvmlDeviceGetIndex(event.device), event.eventType, event.eventData]), flush=True)
"""

CHANGES = """
import pynvml as n
n.nvmlInit()
h = n.nvmlDeviceGetHandleByIndex(0)
for _ in range(2):
    print(n.nvmlDeviceGetUtilizationRates(h).gpu, flush=True)
    input()
"""


@pytest.fixture
def stub(tmp_path: Path) -> NvmlStub:
    return NvmlStub(tmp_path)


def probe(stub: NvmlStub) -> Any:
    done = subprocess.run(
        [sys.executable, "-c", PROBE],
        env={**os.environ, **stub.environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def start(stub: NvmlStub, program: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", program],
        env={**os.environ, **stub.environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_two_cards_of_different_age_support_different_things(stub: NvmlStub) -> None:
    found = probe(stub)
    new, old = found["gpus"]
    assert found["driver"] == "570.86.15"
    assert (new["Name"], old["Name"]) == ("NVIDIA H200", "Tesla T4")
    assert new["UtilizationRates"] == {"gpu": 87, "memory": 41}
    assert new["MemoryV2"]["reserved"] == 600_000_000
    assert new["MemoryV1"]["used"] == new["MemoryV2"]["used"] + 600_000_000
    assert (new["TemperatureV"], new["Margin"], new["Gpm"]) == (61, 26, 1)
    assert new["Processes"] == [[4242, 118_000_000_000]]
    assert new["Fields"] == [[0, 70], [3, 0]]
    assert len(old["Retired"]) == 2
    not_supported = {"error": 3}
    lacking = ("TotalEnergyConsumption", "RemappedRows", "MigMode", "Margin")
    assert [old[name] for name in lacking] == [not_supported] * 4
    assert old["Gpm"] == 0


def test_failures_hit_one_call_of_one_card(stub: NvmlStub) -> None:
    stub.fail(GPU_IS_LOST, "nvmlDeviceGetPowerUsage", gpu=1)
    new, old = probe(stub)["gpus"]
    assert old["PowerUsage"] == {"error": GPU_IS_LOST}
    assert old["EnforcedPowerLimit"] == 70_000
    assert new["PowerUsage"] == 523_000
    stub.mend()
    assert probe(stub)["gpus"][1]["PowerUsage"] == 28_000


def test_a_driver_that_is_not_loaded_fails_the_start(stub: NvmlStub) -> None:
    stub.fail(DRIVER_NOT_LOADED, "nvmlInit")
    with pytest.raises(subprocess.CalledProcessError):
        probe(stub)


def test_values_change_under_a_running_process(stub: NvmlStub) -> None:
    with start(stub, CHANGES) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == "87\n"
        stub.set(0, util_gpu=12)
        process.stdin.write("\n\n")
        process.stdin.flush()
        assert process.stdout.readline() == "12\n"


def test_an_xid_reaches_the_one_who_waits_for_it(stub: NvmlStub) -> None:
    with start(stub, EVENTS) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "10\n"  # NVML_ERROR_TIMEOUT while nothing happens
        stub.raise_event(0, EVENT_XID, 79)
        assert json.loads(process.stdout.readline()) == [0, EVENT_XID, 79]


def test_a_capability_that_is_taken_away_is_not_supported(stub: NvmlStub) -> None:
    stub.unset(0, "energy")
    assert probe(stub)["gpus"][0]["TotalEnergyConsumption"] == {"error": 3}
