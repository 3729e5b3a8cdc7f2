"""Fake vLLM, SGLang and TensorRT-LLM: fast, exact about tokens, controllable, honest about what they did.

In a test's own loop: `async with FakeEngine(EngineOptions(...)) as engine`. As processes: `FakeEngineProcess`. By hand:
`python -m tests.fakes.engine --personality vllm --port 0`.
"""

from __future__ import annotations

from tests.fakes.engine.core import FakeEngine
from tests.fakes.engine.options import H100, EngineOptions, Faults, Limits, Timing
from tests.fakes.engine.process import EngineHandle, FakeEngineProcess
from tests.fakes.engine.truth import (
    Record,
    TruthLog,
    accepted,
    credential_mark,
    outcomes,
    read_truth,
)

__all__ = [
    "H100",
    "EngineHandle",
    "EngineOptions",
    "FakeEngine",
    "FakeEngineProcess",
    "Faults",
    "Limits",
    "Record",
    "Timing",
    "TruthLog",
    "accepted",
    "credential_mark",
    "outcomes",
    "read_truth",
]
