"""The trust boundary of a request body: control fields of engines and of other gateways never pass.

The parsed tree is walked, not the bytes: a byte search misses `"cache\\u005fsalt"` and costs more. JSON Schemas of
tools and answers are opaque: a tool may own a parameter called `priority`.
"""

from __future__ import annotations

from typing import Any, Final

CONTROL_FIELDS: Final = frozenset(
    (
        # vLLM, SGLang and TensorRT-LLM: scheduling, cache identity, rank and transfer control, raw tokens.
        "cache_salt",
        "extra_key",
        "priority",
        "kv_transfer_params",
        "ec_transfer_params",
        "vllm_xargs",
        "request_id",
        "rid",
        "session_id",
        "session_params",
        "bootstrap_host",
        "bootstrap_port",
        "bootstrap_room",
        "bootstrap_pair_key",
        "routed_dp_rank",
        "data_parallel_rank",
        "disagg_prefill_dp_rank",
        "lora_path",
        "lora_request",
        "disaggregated_params",
        "conversation_params",
        "custom_labels",
        "custom_params",
        "custom_logit_processor",
        "prompt_embeds",
        "prompt_token_ids",
        "input_ids",
        "input_embeds",
        "chat_template",
        "mm_processor_kwargs",
        "media_io_kwargs",
        "return_hidden_states",
        # Fields by which other gateways let a caller choose upstream, credentials or guards.
        "api_base",
        "api_key",
        "api_version",
        "base_url",
        "callbacks",
        "custom_llm_provider",
        "extra_body",
        "extra_headers",
        "fallbacks",
        "guardrails",
        "model_list",
        "organization",
        "region",
        "server_url",
    )
)

MAX_DEPTH: Final = 64
_NESTING: Final = frozenset((dict, list))
_OWNERS: Final = frozenset(("tools", "functions", "response_format"))


class TooDeepError(ValueError):
    """The document is nested deeper than MAX_DEPTH."""


def check_depth(document: dict[str, Any]) -> None:
    """Raises TooDeepError."""
    level: list[Any] = [document]
    for _ in range(MAX_DEPTH):
        deeper: list[Any] = []
        for node in level:
            children = node.values() if type(node) is dict else node
            deeper += [child for child in children if type(child) in _NESTING]
        if not deeper:
            return
        level = deeper
    raise TooDeepError


def strip(document: dict[str, Any]) -> tuple[tuple[str, ...], int]:
    """Remove control fields in place; returns their names, sorted, and the number of keys the document had.

    The key count is what a caller needs to tell whether the text had duplicate keys.
    """
    opaque = _opaque(document)
    found: set[str] = set()
    keys = 0
    nodes: list[Any] = [document]
    for node in nodes:  # grows while it is walked
        children = node
        if type(node) is dict:
            if opaque and id(node) in opaque:
                keys += _count_keys(node)
                continue
            keys += len(node)
            if not CONTROL_FIELDS.isdisjoint(node):
                keys += _remove(node, found)
            children = node.values()
        for child in children:
            if type(child) is dict or type(child) is list:
                nodes.append(child)  # noqa: PERF401 - a comprehension per node costs more than it saves here
    return tuple(sorted(found)) if found else (), keys


def _remove(node: dict[str, Any], found: set[str]) -> int:
    """Remove the fields; returns how many keys their values held, so that the count stays that of the text."""
    inner = 0
    for name in CONTROL_FIELDS.intersection(node):
        inner += _count_keys(node.pop(name))
        found.add(name)
    return inner


def _count_keys(value: Any) -> int:
    """Keys anywhere in `value`."""
    keys = 0
    nodes = [value]
    for node in nodes:
        if type(node) is dict:
            keys += len(node)
            nodes.extend(node.values())
        elif type(node) is list:
            nodes.extend(node)
    return keys


def _opaque(document: dict[str, Any]) -> set[int]:
    """Identities of the schemas and argument objects that belong to the caller's tools and answer format."""
    opaque: set[int] = set()
    if _OWNERS.isdisjoint(document):
        return opaque
    for tool in _dicts(document.get("tools")):
        for holder in (tool, tool.get("function")):
            _add(opaque, holder, ("parameters", "input_schema"))
    for function in _dicts(document.get("functions")):
        _add(opaque, function, ("parameters",))
    answer = document.get("response_format")
    if type(answer) is dict:
        _add(opaque, answer.get("json_schema"), ("schema",))
    return opaque


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if type(item) is dict] if type(value) is list else []


def _add(opaque: set[int], holder: Any, names: tuple[str, ...]) -> None:
    if type(holder) is dict:
        opaque.update(id(holder[name]) for name in names if type(holder.get(name)) is dict)
