"""vLLM's metric names by version. Each is held against the real 0.32 by `make test-vllm`."""

from __future__ import annotations

from tests.fakes.engine.dialects.base import Load
from tests.fakes.engine.metrics import (
    EngineStats,
    Family,
    Labels,
    Sample,
    by_label,
    counter,
    gauge,
    histogram,
)
from tests.fakes.engine.options import EngineOptions

_FINISHES = ("stop", "length", "abort", "error", "repetition")


def vllm_families(
    options: EngineOptions, number: tuple[int, ...], stats: EngineStats, load: Load
) -> list[Family]:
    labels = {"engine": "0", "model_name": options.models[0]}
    return [
        gauge("vllm:num_requests_running", labels, load.running),
        gauge("vllm:num_requests_waiting", labels, load.waiting),
        *_usage_gauges(number, labels, load),
        *_new_families(number, labels, stats, load),
        counter("vllm:prefix_cache_queries", labels, stats.queried_tokens),
        counter("vllm:prefix_cache_hits", labels, stats.cached_tokens),
        counter("vllm:prompt_tokens", labels, stats.prompt_tokens),
        counter("vllm:generation_tokens", labels, stats.generated_tokens),
        counter("vllm:num_preemptions", labels, 0),
        by_label(
            "vllm:request_success",
            labels,
            "finished_reason",
            {k: stats.ended[k] for k in _FINISHES},
        ),
        histogram("vllm:time_to_first_token_seconds", labels, stats.ttft),
        histogram(_gap_name(number), labels, stats.token_gap),
        histogram("vllm:e2e_request_latency_seconds", labels, stats.latency),
        histogram("vllm:request_queue_time_seconds", labels, stats.queue_time),
        histogram("vllm:request_prompt_tokens", labels, stats.request_prompt_tokens),
        histogram("vllm:request_generation_tokens", labels, stats.request_generated_tokens),
        *_infos(options, labels, stats),
    ]


def _usage_gauges(number: tuple[int, ...], labels: Labels, load: Load) -> list[Family]:
    old = gauge("vllm:gpu_cache_usage_perc", labels, load.kv_usage_ratio)
    new = gauge("vllm:kv_cache_usage_perc", labels, load.kv_usage_ratio)
    if number < (0, 11):
        return [old]
    return [old, new] if number == (0, 11) else [new]


def _gap_name(number: tuple[int, ...]) -> str:
    return (
        "vllm:time_per_output_token_seconds"
        if number < (0, 11)
        else "vllm:inter_token_latency_seconds"
    )


def _new_families(
    number: tuple[int, ...], labels: Labels, stats: EngineStats, load: Load
) -> list[Family]:
    if number < (0, 24):
        return []
    capacity = load.waiting - load.deferred
    reasons = {"capacity": capacity, "deferred": load.deferred}
    by_reason = [Sample("", {**labels, "reason": reason}, n) for reason, n in reasons.items()]
    rejections = {"max_num_queued_reqs": stats.rejected, "max_num_queued_tokens": 0}
    model = {"model_name": labels["model_name"]}
    return [
        Family("vllm:num_requests_waiting_by_reason", "gauge", by_reason),
        counter("vllm:prompt_tokens_cached", labels, stats.cached_tokens),
        by_label("vllm:admission_rejections", model, "reason", rejections),
    ]


def _infos(options: EngineOptions, labels: Labels, stats: EngineStats) -> list[Family]:
    limits = options.limits
    cache = {
        "block_size": str(limits.block_tokens),
        "cache_dtype": "auto",
        "enable_prefix_caching": "True",
        "engine": "0",
        "num_gpu_blocks": str(limits.num_blocks),
        "prefix_caching_hash_algo": "sha256",
    }
    infos = [gauge("vllm:cache_config_info", cache, 1)]
    if options.runtime_lora:
        running = ",".join(stats.adapters)
        lora = {
            "max_lora": str(limits.max_loras),
            "running_lora_adapters": running,
            "waiting_lora_adapters": "",
        }
        infos.append(gauge("vllm:lora_requests_info", lora, stats.started_at))
    return infos
