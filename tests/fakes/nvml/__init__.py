"""GPUs without a GPU: a stand-in for NVIDIA's management library, compiled by the test, loaded by the real binding.

    stub = NvmlStub(tmp_path)                       # two GPUs of different age
    stub.set(0, util_gpu=35)                        # at run time, seen by the next call
    stub.raise_event(0, EVENT_XID, 79)
    subprocess.run([...], env={**os.environ, **stub.environment})

The binding opens `libnvidia-ml.so.1` by that name, so a process finds the stub through LD_LIBRARY_PATH and runs
the very code that it would run on a GPU host.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_name("stub.c")
LIBRARY = "libnvidia-ml.so.1"
COMPILE_TIMEOUT_S = 60

EVENT_SINGLE_BIT_ECC = 0x1
EVENT_DOUBLE_BIT_ECC = 0x2
EVENT_XID = 0x8

NOT_SUPPORTED = 3
GPU_IS_LOST = 15
DRIVER_NOT_LOADED = 9

Value = int | float | str

H200: dict[str, Value] = {
    "name": "NVIDIA H200",
    "uuid": "GPU-00000000-0000-0000-0000-0000000000h2",
    "pci.id": "00000000:1B:00.0",
    "cc.major": 9,
    "cc.minor": 0,
    "util.gpu": 87,
    "util.mem": 41,
    "mem.total": 150_754_820_096,
    "mem.used": 120_000_000_000,
    "mem.reserved": 600_000_000,
    "power": 523_000,
    "power.limit": 700_000,
    "energy": 123_456_789_012,
    "temp": 61,
    "temp.margin": 26,
    "threshold.1": 95,
    "clock.0": 1755,
    "clock.1": 1755,
    "clock.2": 3201,
    "maxclock.1": 1980,
    "reasons": 4,
    "pcie.0": 1000,
    "pcie.1": 2000,
    "nvlink.0": 1,
    "eccmode": 1,
    "ecc.0.0": 3,
    "ecc.1.0": 0,
    "ecc.0.1": 9,
    "ecc.1.1": 0,
    "sram.uncorrectable": 0,
    "sram.exceeded": 0,
    "remap.cor": 1,
    "remap.banks": 640,
    "mig": 0,
    "proc.0": "4242,118000000000",
    "fi.74": 1_000_000,
    "fi.75": 0,
    "fi.82": 70,
    "fi.94": 0,
    "fi.138": 500_000,
    "fi.139": 600_000,
    "fi.185": 520_000,
    "fi.186": 523_000,
    "fi.230": 0,
    "events": 65535,
    "gpm": 1,
    "gpm.2": 74.5,
    "gpm.5": 38.25,
    "gpm.10": 61.0,
}
"""A card that knows almost everything: GPM, row remapping, NVLink, HBM temperature, energy."""

T4: dict[str, Value] = {
    "name": "Tesla T4",
    "uuid": "GPU-11111111-0000-0000-0000-0000000000f4",
    "pci.id": "00000000:3B:00.0",
    "cc.major": 7,
    "cc.minor": 5,
    "util.gpu": 3,
    "util.mem": 0,
    "mem.total": 16_106_127_360,
    "mem.used": 500_000_000,
    "power": 28_000,
    "power.limit": 70_000,
    "temp": 44,
    "threshold.1": 96,
    "clock.1": 585,
    "clock.2": 5000,
    "maxclock.1": 1590,
    "reasons": 1,
    "pcie.0": 10,
    "pcie.1": 20,
    "eccmode": 1,
    "ecc.0.0": 0,
    "ecc.1.0": 0,
    "retired.0": 0,
    "retired.1": 2,
    "events": 0xB,
}
"""An older card: no energy counter here, no row remapping, no NVLink, no MIG, no GPM, no memory temperature."""


class NvmlStub:
    """The library and its state in `folder`. Skips the test, by name, where there is no C compiler."""

    def __init__(self, folder: Path, gpus: tuple[dict[str, Value], ...] = (H200, T4)) -> None:
        self.folder = folder / "nvml"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.state_path = self.folder / "state.txt"
        self.events_path = self.folder / "events.txt"
        self.events_path.touch()
        self._gpus = [dict(gpu) for gpu in gpus]
        self._system: dict[str, Value] = {"driver": "570.86.15", "nvml": "12.570.86.15"}
        self._failures: dict[str, int] = {}
        compile_stub(self.folder / LIBRARY)
        self._write()

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs in order to find these GPUs."""
        return {
            "LD_LIBRARY_PATH": str(self.folder),
            "NVML_STUB_STATE": str(self.state_path),
            "NVML_STUB_EVENTS": str(self.events_path),
        }

    def set(self, gpu: int, values: dict[str, Value] | None = None, **fields: Value) -> None:
        """Change values of a GPU; in `fields` an underscore stands for the dot in a key."""
        self._gpus[gpu] |= values or {}
        self._gpus[gpu] |= {name.replace("_", "."): value for name, value in fields.items()}
        self._write()

    def unset(self, gpu: int, *keys: str) -> None:
        """Take capabilities away: the GPU says NotSupported from now on."""
        for key in keys:
            del self._gpus[gpu][key]
        self._write()

    def set_driver(self, version: str) -> None:
        self._system["driver"] = version
        self._write()

    def fail(self, code: int, symbol: str = "*", gpu: int | None = None) -> None:
        """Make one call fail: everywhere, or for one GPU, or every call for that GPU (symbol `*`)."""
        self._failures[symbol if gpu is None else f"{gpu}.{symbol}"] = code
        self._write()

    def mend(self) -> None:
        """End all failures."""
        self._failures.clear()
        self._write()

    def raise_event(self, gpu: int, kind: int, data: int = 0) -> None:
        """Let the driver report an event, for instance `raise_event(0, EVENT_XID, 79)`."""
        with self.events_path.open("a") as file:
            file.write(f"{gpu},{kind},{data}\n")

    def _write(self) -> None:
        lines = [f"count={len(self._gpus)}"]
        lines += [f"{key}={value}" for key, value in self._system.items()]
        lines += [
            f"{at}.{key}={value}" for at, gpu in enumerate(self._gpus) for key, value in gpu.items()
        ]
        lines += [f"fail.{where}={code}" for where, code in self._failures.items()]
        fresh = self.state_path.with_suffix(".new")
        fresh.write_text("\n".join(lines) + "\n")
        fresh.replace(self.state_path)  # whole or not at all: the library may read at any time


def compile_stub(target: Path) -> None:
    """Compile the stub; a missing compiler skips the test, anything else the compiler says fails it."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no C compiler (cc, gcc or clang): the NVML stub cannot be built here")
    command = [
        compiler,
        "-shared",
        "-fPIC",
        "-O1",
        "-Wall",
        "-Wextra",
        "-o",
        str(target),
        str(SOURCE),
        "-lpthread",
    ]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=COMPILE_TIMEOUT_S, check=False
    )
    assert done.returncode == 0, done.stderr
