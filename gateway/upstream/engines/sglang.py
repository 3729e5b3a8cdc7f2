"""SGLang ignores unknown fields and serves unknown model names by the base model: the gateway checks names itself.

`/health` generates a token and so costs a decode slot: it is probed sparingly.
"""

from __future__ import annotations

from typing import Final

from gateway.upstream.engines.table import Capabilities

CAPABILITIES: Final = Capabilities(
    name="sglang",
    injectable=frozenset(
        ("cache_salt", "extra_key", "priority", "rid", "lora_path", "routed_dp_rank")
    ),
    health_interval_s=15.0,
)
