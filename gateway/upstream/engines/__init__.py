"""The capability table, one module an engine."""

from __future__ import annotations

from typing import Final

from gateway.upstream.engines import anthropic, openai, sglang, trtllm, vllm
from gateway.upstream.engines.table import Capabilities
from policies.schema.units import Engine

ENGINES: Final[dict[Engine, Capabilities]] = {
    "vllm": vllm.CAPABILITIES,
    "sglang": sglang.CAPABILITIES,
    "trtllm": trtllm.CAPABILITIES,
    "openai": openai.CAPABILITIES,
    "anthropic": anthropic.CAPABILITIES,
}
