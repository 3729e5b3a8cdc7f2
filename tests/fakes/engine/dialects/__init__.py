"""The three engines' ways of speaking: one class each behind `Dialect`."""

from __future__ import annotations

from tests.fakes.engine.dialects.base import Dialect
from tests.fakes.engine.dialects.sglang import SGLang
from tests.fakes.engine.dialects.trtllm import TRTLLM
from tests.fakes.engine.dialects.vllm import VLLM
from tests.fakes.engine.options import EngineOptions

_DIALECTS: dict[str, type[Dialect]] = {"vllm": VLLM, "sglang": SGLang, "trtllm": TRTLLM}


def dialect_of(options: EngineOptions) -> Dialect:
    return _DIALECTS[options.personality](options)
