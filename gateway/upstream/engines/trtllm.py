"""TensorRT-LLM refuses unknown fields, so what only other engines know must go before it is sent."""

from __future__ import annotations

from typing import Final

from gateway.upstream.engines.table import Capabilities

CAPABILITIES: Final = Capabilities(
    name="trtllm",
    injectable=frozenset(
        ("cache_salt", "priority", "lora_request", "disaggregated_params", "conversation_params")
    ),
    dropped=frozenset(
        (
            "metadata",
            "prediction",
            "prompt_cache_key",
            "prompt_cache_retention",
            "return_cached_tokens_details",
            "return_prompt_text",
            "return_spec_tokens_details",
            "return_weight_versions",
            "safety_identifier",
            "service_tier",
            "store",
            "stream_interval",
            "verbosity",
        )
    ),
    refused=frozenset(
        (
            "audio",
            "documents",
            "ebnf",
            "logprob_token_ids",
            "modalities",
            "regex",
            "repetition_detection",
            "structured_outputs",
            "suffix",
            "thinking_token_budget",
            "web_search_options",
        )
    ),
)
