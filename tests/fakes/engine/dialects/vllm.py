"""vLLM, checked against the real 0.32 by `make test-vllm`; older versions differ in metric names and KV event form."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from tests.fakes.engine.asks import Body, Route
from tests.fakes.engine.dialects.base import (
    Choice,
    Envelope,
    Load,
    Usage,
    chat_logprobs_at,
    completion_logprobs,
    tool_call,
)
from tests.fakes.engine.dialects.checks import FieldFault
from tests.fakes.engine.dialects.vllm_metrics import vllm_families
from tests.fakes.engine.dialects.vllm_requests import VLLMRequests
from tests.fakes.engine.metrics import EngineStats, Family


class VLLM(VLLMRequests):
    newest = "0.32.0"
    lora_paths = ("/v1/load_lora_adapter", "/v1/unload_lora_adapter")
    owned_by = "vllm"

    # answers
    def ident(self, route: Route, request_id: str, serial: int) -> str:
        tail = request_id or sha256(f"{self.options.name}/{serial}".encode()).hexdigest()[:16]
        return ("chatcmpl-" if route == "chat" else "cmpl-") + tail

    @property
    def fingerprint(self) -> str:
        return f"vllm-{self.version}-{sha256(self.base_model.encode()).hexdigest()[:8]}"

    def whole(
        self, envelope: Envelope, choices: list[Choice], usage: Usage | None
    ) -> dict[str, Any]:
        chat = envelope.ask.route == "chat"
        body: dict[str, Any] = {
            "id": envelope.ident,
            "object": "chat.completion" if chat else "text_completion",
            "created": envelope.created,
            "model": envelope.model,
            "choices": [
                self._chat_choice(envelope, c) if chat else self._text_choice(envelope, c)
                for c in choices
            ],
            "service_tier": None,
            "system_fingerprint": self.fingerprint,
        }
        if usage is not None:
            body["usage"] = self._usage(envelope, usage)
        if chat:
            ids = envelope.ask.prompts[0] if envelope.ask.return_token_ids else None
            body |= {"prompt_logprobs": None, "prompt_token_ids": ids, "prompt_text": None}
        return body | {"kv_transfer_params": None, "ec_transfer_params": None, "metrics": None}

    def _usage(self, envelope: Envelope, usage: Usage) -> dict[str, Any]:
        details = None
        if self.options.prompt_tokens_details:
            created = usage.created_cache_tokens if envelope.ask.route == "chat" else None
            details = {
                "cached_tokens": usage.cached_tokens,
                "created_cache_tokens": created,
                "multimodal_tokens": None,
            }
        return _counts(usage) | {
            "prompt_tokens_details": details,
            "completion_tokens_details": None,
        }

    def _chat_choice(self, envelope: Envelope, choice: Choice) -> dict[str, Any]:
        message: dict[str, Any] = {
            "role": "assistant",
            "content": None if choice.tool else choice.text,
            "refusal": None,
            "annotations": None,
            "audio": None,
            "function_call": None,
            "reasoning": None,
        }
        if choice.tool:
            message["tool_calls"] = [tool_call(choice.tool, choice.text, envelope.ident)]
        return {
            "index": choice.index,
            "message": message,
            "logprobs": chat_logprobs_at(choice, 0, len(choice.ids), envelope.ask.top_logprobs),
            "finish_reason": choice.finish_reason,
            "stop_reason": choice.stop_reason,
            "token_ids": choice.ids if envelope.ask.return_token_ids else None,
            "routed_experts": None,
        }

    def _text_choice(self, envelope: Envelope, choice: Choice) -> dict[str, Any]:
        top = envelope.ask.top_logprobs
        prompts = envelope.ask.prompts
        ids = (
            prompts[choice.index // envelope.ask.choices] if envelope.ask.return_token_ids else None
        )
        return {
            "index": choice.index,
            "text": choice.text,
            "logprobs": None
            if top is None
            else completion_logprobs(choice, 0, len(choice.ids), top),
            "finish_reason": choice.finish_reason,
            "stop_reason": choice.stop_reason,
            "token_ids": choice.ids if envelope.ask.return_token_ids else None,
            "prompt_logprobs": None,
            "prompt_token_ids": ids,
            "routed_experts": None,
        }

    def opening(self, envelope: Envelope, index: int, usage: Usage | None) -> dict[str, Any] | None:
        if envelope.ask.route == "completion":
            return None
        delta = {"role": "assistant", "content": ""}
        choice = {"index": index, "delta": delta, "logprobs": None, "finish_reason": None}
        ids = envelope.ask.prompts[0] if envelope.ask.return_token_ids else None
        return self._chunk(envelope, [choice], usage) | {
            "prompt_token_ids": ids,
            "prompt_text": None,
        }

    def delta(
        self, envelope: Envelope, choice: Choice, at: int, usage: Usage | None
    ) -> dict[str, Any]:
        last = at + 1 >= len(choice.ids)
        make = self._chat_delta if envelope.ask.route == "chat" else self._text_delta
        chunk = self._chunk(envelope, [make(envelope, choice, at, last=last)], usage)
        if last and not envelope.ask.include_usage:  # else it comes with the usage
            chunk["system_fingerprint"] = self.fingerprint
        return chunk

    def _chat_delta(
        self, envelope: Envelope, choice: Choice, at: int, *, last: bool
    ) -> dict[str, Any]:
        piece = choice.pieces[at] if at < len(choice.pieces) else ""
        delta: dict[str, Any] = {"content": piece}
        if choice.tool:
            delta = {"tool_calls": [_tool_delta(choice, piece, at, envelope.ident)]}
        own: dict[str, Any] = {
            "index": choice.index,
            "delta": delta,
            "logprobs": chat_logprobs_at(choice, at, at + 1, envelope.ask.top_logprobs),
            "finish_reason": choice.finish_reason if last else None,
        }
        if last:
            own["stop_reason"] = choice.stop_reason
        return own | {
            "token_ids": choice.ids[at : at + 1] if envelope.ask.return_token_ids else None
        }

    def _text_delta(
        self, envelope: Envelope, choice: Choice, at: int, *, last: bool
    ) -> dict[str, Any]:
        piece = choice.pieces[at] if at < len(choice.pieces) else ""
        top = envelope.ask.top_logprobs
        ids = envelope.ask.return_token_ids
        prompt = envelope.ask.prompts[choice.index // envelope.ask.choices]
        return {
            "index": choice.index,
            "text": piece if at else choice.echo + piece,
            "logprobs": None if top is None else completion_logprobs(choice, at, at + 1, top),
            "finish_reason": choice.finish_reason if last else None,
            "stop_reason": choice.stop_reason if last else None,
            "prompt_token_ids": prompt if ids and not at else None,
            "token_ids": choice.ids[at : at + 1] if ids else None,
        }

    def closing(self, envelope: Envelope, usage: Usage) -> dict[str, Any]:
        counts: dict[str, Any] = _counts(usage)
        if self.options.prompt_tokens_details:
            counts["prompt_tokens_details"] = {"cached_tokens": usage.cached_tokens}
            if envelope.ask.route == "chat":
                counts["prompt_tokens_details"]["created_cache_tokens"] = usage.created_cache_tokens
        chunk = self._chunk(envelope, [], None)
        return chunk | {"usage": counts, "system_fingerprint": self.fingerprint}

    def _chunk(
        self, envelope: Envelope, choices: list[dict[str, Any]], usage: Usage | None
    ) -> dict[str, Any]:
        chat = envelope.ask.route == "chat"
        chunk: dict[str, Any] = {
            "id": envelope.ident,
            "object": "chat.completion.chunk" if chat else "text_completion",
            "created": envelope.created,
            "model": envelope.model,
            "choices": choices,
        }
        if usage is not None:
            chunk["usage"] = _counts(usage) | ({"completion_tokens_details": None} if chat else {})
        return chunk

    # the rest
    def families(self, stats: EngineStats, load: Load) -> list[Family]:
        return vllm_families(self.options, self.number, stats, load)

    def card(self, name: str, created: int, adapter_path: str | None) -> dict[str, Any]:
        permission = {
            "id": "modelperm-" + sha256(f"{name}/{created}".encode()).hexdigest()[:16],
            "object": "model_permission",
            "created": created,
            "allow_create_engine": False,
            "allow_sampling": True,
            "allow_logprobs": True,
            "allow_search_indices": False,
            "allow_view": True,
            "allow_fine_tuning": False,
            "organization": "*",
            "group": None,
            "is_blocking": False,
        }
        base = adapter_path is None
        return {
            "id": name,
            "object": "model",
            "created": created,
            "owned_by": self.owned_by,
            "root": self.base_model if base else adapter_path,
            "parent": None if base else self.base_model,
            "max_model_len": self.options.limits.max_model_len if base else None,
            "permission": [permission],
        }

    def load_adapter(self, body: Body, adapters: dict[str, str]) -> object:
        self._adapter_fields(body, ("lora_name", "lora_path"))
        name, path = body["lora_name"], body["lora_path"]
        if not name or not path:
            raise self.error(
                400, "Both 'lora_name' and 'lora_path' must be provided.", "InvalidUserInput"
            )
        if name in self.options.models:
            raise self.error(
                400,
                f"The lora adapter '{name}' conflicts with a served base model.",
                "InvalidUserInput",
            )
        if name in adapters and not body.get("load_inplace"):
            raise self.error(
                400,
                f"The lora adapter '{name}' has already been loaded. If you want to load the adapter in place,"
                " set 'load_inplace' to True.",
                "InvalidUserInput",
            )
        if "missing" in path:
            raise self.error(
                404, f"Loading lora {name} failed: No adapter found for {path}", "NotFoundError"
            )
        if "too-big" in path:
            raise self.error(
                500, "LoRA rank 512 is greater than max_lora_rank 16.", "InternalServerError"
            )
        adapters[name] = path
        return f"Success: LoRA adapter '{name}' added successfully."

    def unload_adapter(self, body: Body, adapters: dict[str, str]) -> object:
        self._adapter_fields(body, ("lora_name",))
        name = body["lora_name"]
        if name not in adapters:
            raise self.error(404, f"The lora adapter '{name}' cannot be found.", "NotFoundError")
        del adapters[name]
        return f"Success: LoRA adapter '{name}' removed successfully."

    def _adapter_fields(self, body: Body, names: tuple[str, ...]) -> None:
        for name in names:
            if name not in body:
                raise self.invalid(FieldFault.missing(name, body))

    def tokenized(self, tokens: list[int]) -> dict[str, Any]:
        return super().tokenized(tokens) | {"token_strs": None}

    def extra_get(self, path: str, load: Load) -> object | None:
        # The real counter stays 0 without --enable-server-load-tracking; a client must not take it for idleness.
        return {"server_load": 0} if path == "/load" else None


def _counts(usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.prompt_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "completion_tokens": usage.completion_tokens,
    }


def _tool_delta(choice: Choice, piece: str, at: int, ident: str) -> dict[str, Any]:
    if at:
        return {"index": 0, "function": {"arguments": piece}}
    whole = tool_call(choice.tool or "", piece, ident)
    return {"index": 0, **whole}
