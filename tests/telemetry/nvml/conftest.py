"""The real binding over a stub of the driver's library."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pynvml
import pytest

from tests.telemetry.nvml.driver import StubDriver, compiled


@pytest.fixture(scope="session")
def library_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def driver(
    library_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[StubDriver]:
    """Two GPUs: one that can do everything, one that knows little."""
    stub = StubDriver(tmp_path)
    monkeypatch.setattr("telemetry.nvml.sampler.EVENT_WAIT_MS", 50)
    for name, path in stub.environment.items():
        monkeypatch.setitem(os.environ, name, path)
    binding: Any = pynvml
    monkeypatch.setattr(binding, "nvmlLib", ctypes.CDLL(str(library_path)))
    yield stub
    monkeypatch.undo()
    binding._nvmlGetFunctionPointer_cache.clear()
