"""TensorRT-LLM: refuses every field it does not know, with an error of its own shape; Prometheus is not at /metrics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.fakes.engine.asks import Body, EngineError, Route
from tests.fakes.engine.dialects.base import Envelope, Load, Usage
from tests.fakes.engine.dialects.checks import FieldFault, field_fault
from tests.fakes.engine.dialects.flat import FlatDialect, route_prefix
from tests.fakes.engine.metrics import EngineStats, Family, gauge, histogram

_SHARED = frozenset(
    """
    model frequency_penalty logit_bias n presence_penalty seed stop stream stream_options temperature top_p user
    best_of use_beam_search top_k top_p_min min_p repetition_penalty length_penalty early_stopping
    stop_token_ids include_stop_str_in_output ignore_eos min_tokens skip_special_tokens
    spaces_between_special_tokens truncate_prompt_tokens prompt_ignore_length add_special_tokens response_format
    lora_request disaggregated_params conversation_params max_tokens
    """.split()  # noqa: SIM905
)
_CHAT = frozenset(
    """
    messages logprobs top_logprobs max_completion_tokens tools tool_choice parallel_tool_calls reasoning_effort
    echo add_generation_prompt documents chat_template chat_template_kwargs cache_salt priority prompt_token_ids
    agent_hierarchy thinking_token_budget
    """.split()  # noqa: SIM905
)
# No cache_salt here: a gateway that salts prefixes must know that one route takes it and the other refuses it.
_COMPLETION = frozenset(
    ("prompt", "echo", "logprobs", "suffix", "return_context_logits", "detokenize", "priority")
)
KNOWN_FIELDS: Mapping[Route, frozenset[str]] = {
    "chat": _SHARED | _CHAT,
    "completion": _SHARED | _COMPLETION,
}


class TRTLLM(FlatDialect):
    newest = "1.2.0"
    metrics_path = "/prometheus/metrics"
    tokenize_paths = ("/_internal/tokenize", "")
    owned_by = "tensorrt_llm"
    stop_field = "stop_reason"
    null_usage = True

    def invalid(self, fault: FieldFault) -> EngineError:
        place = ("body", *fault.field.split(".")) if fault.field else ("body",)
        detail = [{"type": fault.kind, "loc": place, "msg": fault.message, "input": fault.value}]
        # A plain string, unlike every other error of this engine.
        return EngineError(400, {"error": str(detail)})

    def check_fields(self, route: Route, body: Body) -> None:
        required = ("model", "messages") if route == "chat" else ("model", "prompt")
        fault = field_fault(body, required, fractions=("priority",))
        if fault is not None:
            raise self.invalid(fault)
        for name, value in body.items():
            if name not in KNOWN_FIELDS[route]:
                raise self.invalid(
                    FieldFault(name, "extra_forbidden", "Extra inputs are not permitted", value)
                )

    def check_values(self, route: Route, body: Body) -> None:
        if body.get("suffix"):
            raise self.invalid(
                FieldFault("", "value_error", "Value error, suffix is not supported", body)
            )
        priority = body.get("priority")
        if priority is not None and not 0 <= float(priority) <= 1:
            message = "Input should be less than or equal to 1"
            raise self.invalid(FieldFault("priority", "less_than_equal", message, priority))
        if body.get("stream_options") and not body.get("stream"):
            message = "Value error, stream_options can only be set if stream is true"
            raise self.invalid(FieldFault("", "value_error", message, body))
        wanted = self.max_tokens(route, body)
        if wanted is not None and wanted < 1:
            raise self.bad(f"max_tokens must be at least 1, got {wanted}.")

    def resolve(self, body: Body, adapters: Mapping[str, str]) -> tuple[str, str | None]:
        """The name is not checked and not used: the answer carries the server's own."""
        lora = body.get("lora_request")
        return self.base_model, lora.get("name") if isinstance(lora, dict) else None

    def usage_in_streams(self, body: Body) -> bool:
        return bool(body.get("stream_options"))

    def ident(self, route: Route, request_id: str, serial: int) -> str:
        return route_prefix(route) + self._hex(serial)

    def usage(self, usage: Usage) -> dict[str, Any]:
        details = (
            {"cached_tokens": usage.cached_tokens} if self.options.prompt_tokens_details else None
        )
        return self.counts(usage) | {"prompt_tokens_details": details}

    def message(self, text: str | None, calls: list[dict[str, Any]] | None) -> dict[str, Any]:
        return {
            "role": "assistant",
            "content": text,
            "reasoning_content": None,
            "reasoning": None,
            "tool_calls": calls or [],
        }

    def first_delta(self) -> dict[str, Any]:
        return self._delta("assistant", "")

    def piece_delta(self, piece: str) -> dict[str, Any]:
        return self._delta(None, piece)

    def _delta(self, role: str | None, content: str) -> dict[str, Any]:
        nothing = {"reasoning_content": None, "reasoning": None, "tool_calls": None}
        return {"role": role, "content": content, **nothing}

    def tail(self, envelope: Envelope) -> dict[str, Any]:
        return {"prompt_token_ids": None}

    def card(self, name: str, created: int, adapter_path: str | None) -> dict[str, Any]:
        return {"id": name, "object": "model", "created": created, "owned_by": self.owned_by}

    def families(self, stats: EngineStats, load: Load) -> list[Family]:
        labels = {"model_name": "undefined", "engine_type": "undefined"}
        limits = self.options.limits
        hit_rate = stats.cached_tokens / stats.queried_tokens if stats.queried_tokens else 0.0
        return [
            gauge("trtllm_num_requests_running", labels, load.running),
            gauge("trtllm_num_requests_waiting", labels, load.waiting),
            gauge("trtllm_kv_cache_utilization", labels, load.kv_usage_ratio),
            gauge("trtllm_kv_cache_hit_rate", labels, hit_rate),
            gauge("trtllm_kv_cache_tokens_per_block", labels, limits.block_tokens),
            gauge("trtllm_kv_cache_max_blocks", labels, limits.num_blocks),
            histogram("trtllm_time_to_first_token_seconds", labels, stats.ttft),
            histogram("trtllm_time_per_output_token_seconds", labels, stats.token_gap),
            histogram("trtllm_e2e_request_latency_seconds", labels, stats.latency),
            histogram("trtllm_request_queue_time_seconds", labels, stats.queue_time),
        ]

    def tokenized(self, tokens: list[int]) -> dict[str, Any]:
        return {"count": len(tokens), "tokens": tokens}

    def extra_get(self, path: str, load: Load) -> object | None:
        # JSON iteration statistics, drained by whoever asks first; no Prometheus here.
        return [] if path == "/metrics" else None
