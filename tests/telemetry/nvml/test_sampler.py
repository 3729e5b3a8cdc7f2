from __future__ import annotations

import ctypes
import time
from collections.abc import Iterator
from typing import Any

import pynvml
import pytest

from telemetry.nvml.codec import GpuSample, NodeSample, decode, encode
from telemetry.nvml.sampler import SLOW_EVERY, Sampler
from telemetry.nvml.settings import AgentSettings, read_settings
from tests.telemetry.factories import FakeClock
from tests.telemetry.nvml.driver import STRONG, WEAK, StubDriver

LOST = pynvml.NVML_ERROR_GPU_IS_LOST
TIMEOUT = pynvml.NVML_ERROR_TIMEOUT


@pytest.fixture
def sampler(driver: StubDriver, clock: FakeClock) -> Iterator[Sampler]:
    made = Sampler("node-a", clock)
    yield made
    made.close()


def gpu(sample: NodeSample, uuid: str) -> GpuSample:
    return next(gpu for gpu in sample.gpus if gpu.uuid == uuid)


def test_readings_have_the_names_of_dcgm_and_plain_units(sampler: Sampler) -> None:
    sample = sampler.sample(AgentSettings())
    assert (sample.state, sample.driver, sample.reason) == ("ok", "570.86.15", "")
    strong = gpu(sample, STRONG)
    expected = {
        "gpu_util": 87,
        "mem_copy_util": 41,
        "fb_total": 150_754_820_096,
        "fb_used": 120_000_000_000,
        "fb_reserved": 600_000_000,
        "power_usage": 523,
        "enforced_power_limit": 700,
        "total_energy_consumption": 123_456_789,
        "gpu_temp": 61,
        "memory_temp": 70,
        "sm_clock": 1755,
        "mem_clock": 2619,
        "clocks_event_reasons": 4,
        "ecc_sbe_volatile_total": 3,
        "ecc_dbe_volatile_total": 0,
        "pcie_tx_throughput": 1000 * 1024,
        "pcie_replay_counter": 5,
        "row_remap_failure": 0,
    }
    assert expected.items() <= strong.readings.items()


def test_what_a_gpu_cannot_tell_is_unsupported_and_never_zero(sampler: Sampler) -> None:
    weak = gpu(sampler.sample(AgentSettings()), WEAK)
    assert set(weak.readings) == {
        "gpu_util", "mem_copy_util", "fb_used", "fb_free", "fb_total", "fb_reserved",
    }  # fmt: skip
    assert {"power_usage", "gpu_temp", "ecc_dbe_volatile_total", "xid_errors"} <= set(
        weak.unsupported
    )
    strong = gpu(sampler.sample(AgentSettings()), STRONG)
    assert strong.unsupported == ("slowdown_temp", "nvlink_bandwidth_total")


def test_a_call_that_fails_for_once_leaves_a_gap_and_comes_back(
    sampler: Sampler, driver: StubDriver
) -> None:
    sampler.sample(AgentSettings())
    driver.fail("0.nvmlDeviceGetUtilizationRates", TIMEOUT)
    strong = gpu(sampler.sample(AgentSettings()), STRONG)
    assert "gpu_util" not in strong.readings
    assert "gpu_util" not in strong.unsupported
    driver.heal("0.nvmlDeviceGetUtilizationRates")
    assert gpu(sampler.sample(AgentSettings()), STRONG).readings["gpu_util"] == 87


def test_counters_are_read_every_tenth_time_and_kept_in_between(
    sampler: Sampler, driver: StubDriver
) -> None:
    sampler.sample(AgentSettings())
    driver.set("0.ecc.1.0", 2)
    seen = [
        gpu(sampler.sample(AgentSettings()), STRONG).readings["ecc_dbe_volatile_total"]
        for _ in range(SLOW_EVERY)
    ]
    assert seen == [0.0] * (SLOW_EVERY - 1) + [2.0]


def test_only_the_readings_asked_for_are_taken(sampler: Sampler) -> None:
    sampler.sample(AgentSettings())
    sample = sampler.sample(AgentSettings(fields=("gpu_util", "power_usage")))
    assert set(gpu(sample, STRONG).readings) == {"gpu_util", "power_usage"}
    assert gpu(sample, WEAK).unsupported == ("power_usage",)


def test_a_lost_gpu_says_so_and_the_other_goes_on(
    sampler: Sampler, driver: StubDriver, clock: FakeClock
) -> None:
    sampler.sample(AgentSettings())
    driver.fail("0.*", LOST)
    for _ in range(2):
        sample = sampler.sample(AgentSettings())
        strong = gpu(sample, STRONG)
        assert (strong.state, strong.readings) == ("lost", {})
        assert strong.reason
        assert gpu(sample, WEAK).readings["gpu_util"] == 3
    clock.advance(11)
    assert gpu(sampler.sample(AgentSettings()), STRONG).state == "lost", "it cannot even be named"
    driver.heal("0.*")
    clock.advance(11)
    assert gpu(sampler.sample(AgentSettings()), STRONG).readings["gpu_util"] == 87


def test_a_driver_error_is_heard_within_a_second(sampler: Sampler, driver: StubDriver) -> None:
    sampler.sample(AgentSettings())
    driver.raise_xid(0, 79)
    began = time.monotonic()
    assert sampler.alarm.wait(1.0)
    assert time.monotonic() - began < 1.0
    assert gpu(sampler.sample(AgentSettings()), STRONG).xid_errors == (79,)
    assert gpu(sampler.sample(AgentSettings()), STRONG).xid_errors == ()


def test_a_driver_that_does_not_answer_is_looked_for_again(
    sampler: Sampler, driver: StubDriver, clock: FakeClock
) -> None:
    driver.fail("nvmlInit", pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH)
    sample = sampler.sample(AgentSettings())
    assert (sample.state, sample.gpus) == ("driver_error", ())
    assert "mismatch" in sample.reason.lower()
    driver.heal("nvmlInit")
    assert sampler.sample(AgentSettings()).state == "driver_error", "not asked again at once"
    clock.advance(11)
    assert len(sampler.sample(AgentSettings()).gpus) == 2


def test_a_driver_not_loaded_is_no_driver(sampler: Sampler, driver: StubDriver) -> None:
    driver.fail("nvmlInit", pynvml.NVML_ERROR_DRIVER_NOT_LOADED)
    assert sampler.sample(AgentSettings()).state == "no_driver"


def test_a_host_without_a_driver_says_exactly_that(
    monkeypatch: pytest.MonkeyPatch, clock: FakeClock
) -> None:
    def missing(_: str) -> Any:
        raise OSError("libnvidia-ml.so.1: cannot open shared object file")

    monkeypatch.setattr(pynvml, "nvmlLib", None)
    monkeypatch.setattr(pynvml, "CDLL", missing)
    sampler = Sampler("node-a", clock)
    sample = sampler.sample(AgentSettings())
    sampler.close()
    assert (sample.state, sample.gpus) == ("no_driver", ())
    assert sample.reason.startswith("No NVIDIA driver on this host")


def test_switched_off_it_leaves_the_driver_alone(sampler: Sampler) -> None:
    assert sampler.sample(AgentSettings()).state == "ok"
    sample = sampler.sample(AgentSettings(enabled=False))
    assert (sample.state, sample.gpus) == ("off", ())
    assert sampler.sample(AgentSettings()).state == "ok"


def test_a_sample_survives_the_wire(sampler: Sampler) -> None:
    sample = sampler.sample(AgentSettings())
    assert decode(encode(sample)) == sample


@pytest.mark.parametrize(
    ("raw", "interval_s"),
    [
        (None, 1.0),
        (b'{"interval_ms": 5000}', 5.0),
        (b'{"interval_ms": 1}', 0.25),
        (b"rubbish", 2.0),
        (b'{"interval_ms": "fast"}', 2.0),
    ],
)
def test_settings_that_cannot_be_read_change_nothing(raw: bytes | None, interval_s: float) -> None:
    assert read_settings(raw, AgentSettings(interval_ms=2000)).interval_s == interval_s


def test_the_binding_looks_for_the_library_where_the_loader_does(library_path: Any) -> None:
    assert library_path.name == "libnvidia-ml.so.1"
    assert hasattr(ctypes.CDLL(str(library_path)), "nvmlInit_v2")
