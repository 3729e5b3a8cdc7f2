"""OpenAI and providers that copy it: no engine-control field exists, and no health route."""

from __future__ import annotations

from typing import Final

from gateway.upstream.engines.table import Capabilities

CAPABILITIES: Final = Capabilities(
    name="openai",
    output_cap_field="max_completion_tokens",
    refused=frozenset(
        (
            "chat_template_kwargs",
            "documents",
            "ebnf",
            "ignore_eos",
            "min_p",
            "min_tokens",
            "regex",
            "repetition_penalty",
            "structured_outputs",
            "thinking_token_budget",
            "top_k",
        )
    ),
    health_path=None,
)
