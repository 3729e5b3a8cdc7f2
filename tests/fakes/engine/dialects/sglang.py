"""SGLang 0.5: serves unknown model names with the base model, ignores unknown fields, names metrics `sglang:`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.fakes.engine.asks import Body, EngineError, Route
from tests.fakes.engine.dialects.base import Load, Usage
from tests.fakes.engine.dialects.checks import FieldFault, field_fault
from tests.fakes.engine.dialects.flat import FlatDialect
from tests.fakes.engine.metrics import EngineStats, Family, by_label, counter, gauge, histogram


class SGLang(FlatDialect):
    newest = "0.5.23"
    tokenize_paths = ("/v1/tokenize", "/v1/detokenize")
    lora_paths = ("/load_lora_adapter", "/unload_lora_adapter")
    owned_by = "sglang"
    stop_field = "matched_stop"

    def invalid(self, fault: FieldFault) -> EngineError:
        place = ["body", *fault.field.split(".")] if fault.field else ["body"]
        detail = [{"type": fault.kind, "loc": place, "msg": fault.message}]
        return self.error(400, str(detail), "Bad Request")

    def check_fields(self, route: Route, body: Body) -> None:
        fault = field_fault(body, ("messages",) if route == "chat" else ("prompt",))
        if fault is not None:
            raise self.invalid(fault)

    def check_values(self, route: Route, body: Body) -> None:
        if route == "chat" and not body["messages"]:
            raise self.bad("Messages cannot be empty.")
        if route == "completion" and not body["prompt"]:
            raise self.bad("Prompt cannot be empty")
        wanted = self.max_tokens(route, body)
        if wanted is not None and wanted < 1:
            raise self.bad(f"max_completion_tokens must be at least 1, got {wanted}.")
        temperature, top_p, n = (body.get(name) for name in ("temperature", "top_p", "n"))
        if temperature is not None and temperature < 0:
            raise self.bad(f"temperature must be non-negative, got {temperature}.")
        if top_p is not None and not 0 < top_p <= 1:
            raise self.bad(f"top_p must be in (0, 1], got {top_p}.")
        if n is not None and n < 1:
            raise self.bad(f"n must be at least 1, got {n}.")

    def resolve(self, body: Body, adapters: Mapping[str, str]) -> tuple[str, str | None]:
        """Names are not checked: whatever is not `base:adapter` is served by the base model, silently."""
        name = str(body.get("model") or "default")
        adapter = body.get("lora_path") or name.partition(":")[2] or None
        if adapter is not None and adapter not in adapters:
            raise self.bad(f"Got LoRA adapter that has never been loaded: {adapter}")
        return name, adapter

    def ident(self, route: Route, request_id: str, serial: int) -> str:
        return request_id or self._hex(serial)

    def usage(self, usage: Usage) -> dict[str, Any]:
        details = (
            {"cached_tokens": usage.cached_tokens} if self.options.prompt_tokens_details else None
        )
        return self.counts(usage) | {"prompt_tokens_details": details, "reasoning_tokens": 0}

    def message(self, text: str | None, calls: list[dict[str, Any]] | None) -> dict[str, Any]:
        return {
            "role": "assistant",
            "content": text,
            "reasoning_content": None,
            "tool_calls": calls,
        }

    def first_delta(self) -> dict[str, Any]:
        return {"reasoning_content": None, "role": "assistant", "content": ""}

    def piece_delta(self, piece: str) -> dict[str, Any]:
        return {"reasoning_content": None, "content": piece}

    def tail(self, envelope: object) -> dict[str, Any]:
        return {"metadata": {"weight_version": "default"}}

    def card(self, name: str, created: int, adapter_path: str | None) -> dict[str, Any]:
        base = adapter_path is None
        return {
            "id": name,
            "object": "model",
            "created": created,
            "owned_by": self.owned_by,
            "root": name if base else adapter_path,
            "parent": None if base else self.base_model,
            "max_model_len": self.options.limits.max_model_len if base else None,
        }

    def load_adapter(self, body: Body, adapters: dict[str, str]) -> object:
        name, path = str(body.get("lora_name", "")), str(body.get("lora_path", ""))
        if not name or not path:
            raise self.invalid(FieldFault.missing("lora_path" if name else "lora_name", body))
        if name in adapters:
            raise self._adapter_refusal(f"LoRA with name {name} already exists.", adapters)
        if "missing" in path:
            raise self._adapter_refusal(f"Failed to load LoRA adapter from {path}.", adapters)
        adapters[name] = path
        return {"success": True, "error_message": "", "loaded_adapters": dict(adapters)}

    def unload_adapter(self, body: Body, adapters: dict[str, str]) -> object:
        name = str(body.get("lora_name", ""))
        if name not in adapters:
            raise self._adapter_refusal(f"LoRA with name {name} does not exist.", adapters)
        del adapters[name]
        return {"success": True, "error_message": "", "loaded_adapters": dict(adapters)}

    def _adapter_refusal(self, message: str, adapters: dict[str, str]) -> EngineError:
        body = {"success": False, "error_message": message, "loaded_adapters": dict(adapters)}
        return EngineError(400, body)

    def families(self, stats: EngineStats, load: Load) -> list[Family]:
        labels = {
            "model_name": self.base_model,
            "engine_type": "unified",
            "tp_rank": "0",
            "pp_rank": "0",
        }
        limits = self.options.limits
        hit_rate = stats.cached_tokens / stats.queried_tokens if stats.queried_tokens else 0.0
        total = limits.num_blocks * limits.block_tokens
        return [
            gauge("sglang:num_running_reqs", labels, load.running),
            gauge("sglang:num_queue_reqs", labels, load.waiting),
            gauge("sglang:token_usage", labels, load.kv_usage_ratio),
            gauge("sglang:kv_used_tokens", labels, load.used_blocks * limits.block_tokens),
            gauge("sglang:max_total_num_tokens", labels, total),
            gauge("sglang:page_size", labels, limits.block_tokens),
            gauge("sglang:num_pages", labels, limits.num_blocks),
            gauge("sglang:cache_hit_rate", labels, hit_rate),
            gauge("sglang:lora_pool_slots_used", labels, len(stats.adapters)),
            gauge("sglang:lora_pool_slots_total", labels, limits.max_loras),
            counter("sglang:prompt_tokens", labels, stats.prompt_tokens),
            counter("sglang:generation_tokens", labels, stats.generated_tokens),
            by_label(
                "sglang:cached_tokens", labels, "cache_source", {"device": stats.cached_tokens}
            ),
            histogram("sglang:time_to_first_token_seconds", labels, stats.ttft),
            histogram("sglang:inter_token_latency_seconds", labels, stats.token_gap),
            histogram("sglang:e2e_request_latency_seconds", labels, stats.latency),
            histogram("sglang:queue_time_seconds", labels, stats.queue_time),
        ]

    def extra_get(self, path: str, load: Load) -> object | None:
        limits = self.options.limits
        if path in ("/model_info", "/get_model_info"):
            return {
                "model_path": self.base_model,
                "is_generation": True,
                "weight_version": "default",
            }
        if path in ("/server_info", "/get_server_info"):
            sizes = {"page_size": limits.block_tokens, "max_running_requests": limits.max_num_seqs}
            return {
                "version": self.version,
                "served_model_name": self.base_model,
                "dp_size": 1,
                **sizes,
            }
        if path == "/v1/loads":
            one = {
                "dp_rank": 0,
                "num_running_reqs": load.running,
                "num_waiting_reqs": load.waiting,
                "token_usage": load.kv_usage_ratio,
                "max_total_num_tokens": limits.num_blocks * limits.block_tokens,
            }
            return {"version": self.version, "dp_rank_count": 1, "loads": [one]}
        return None
