"""vLLM ignores unknown fields, so a wrong hint never shows as an error: only known ones are listed."""

from __future__ import annotations

from typing import Final

from gateway.upstream.engines.table import Capabilities

CAPABILITIES: Final = Capabilities(
    name="vllm",
    injectable=frozenset(
        ("cache_salt", "priority", "request_id", "kv_transfer_params", "truncate_prompt_tokens")
    ),
)
