"""State of the stub: what each GPU says, what fails, which errors happen."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.fakes.nvml import LIBRARY, compile_stub

STRONG: Final = "GPU-00000000-aaaa"
WEAK: Final = "GPU-11111111-bbbb"

TWO_GPUS: Final[dict[str, object]] = {
    "count": 2,
    "driver": "570.86.15",
    "0.name": "NVIDIA H200",
    "0.uuid": STRONG,
    "0.util.gpu": 87,
    "0.util.mem": 41,
    "0.mem.total": 150_754_820_096,
    "0.mem.used": 120_000_000_000,
    "0.mem.reserved": 600_000_000,
    "0.power": 523_000,
    "0.power.limit": 700_000,
    "0.energy": 123_456_789_000,
    "0.temp": 61,
    "0.clock.1": 1755,
    "0.clock.2": 2619,
    "0.reasons": 4,
    "0.pcie.0": 1000,
    "0.pcie.1": 2000,
    "0.ecc.0.0": 3,
    "0.ecc.1.0": 0,
    "0.remap.cor": 1,
    "0.fi.82": 70,
    "0.fi.94": 5,
    "0.events": 65535,
    "1.name": "Tesla T4",
    "1.uuid": WEAK,
    "1.util.gpu": 3,
    "1.util.mem": 0,
    "1.mem.total": 16_106_127_360,
    "1.mem.used": 0,
}


def compiled(folder: Path) -> Path:
    """The stub as `libnvidia-ml.so.1`, the only name under which the binding looks for it."""
    library = folder / LIBRARY
    compile_stub(library)
    return library


class StubDriver:
    def __init__(self, folder: Path) -> None:
        self._state, self._events = folder / "state.txt", folder / "events.txt"
        self._values = dict(TWO_GPUS)
        self._events.touch()
        self._write()

    @property
    def environment(self) -> dict[str, str]:
        return {"NVML_STUB_STATE": str(self._state), "NVML_STUB_EVENTS": str(self._events)}

    def set(self, name: str, value: object) -> None:
        self._values[name] = value
        self._write()

    def remove(self, name: str) -> None:
        del self._values[name]
        self._write()

    def fail(self, name: str, code: int) -> None:
        """`name`: a symbol, or `<gpu>.<symbol>`, or `<gpu>.*`."""
        self.set(f"fail.{name}", code)

    def heal(self, name: str) -> None:
        self.remove(f"fail.{name}")

    def raise_xid(self, gpu: int, code: int) -> None:
        with self._events.open("a") as file:
            file.write(f"{gpu},8,{code}\n")

    def _write(self) -> None:
        """Replaced at once: the stub may read at any moment."""
        fresh = self._state.with_suffix(".new")
        fresh.write_text("".join(f"{name}={value}\n" for name, value in self._values.items()))
        fresh.replace(self._state)
