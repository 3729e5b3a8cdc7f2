"""What the real vLLM 0.32 says about requests that it does not take, in its own words."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tests.fakes.engine.asks import Body, EngineError, Route
from tests.fakes.engine.dialects.base import Dialect
from tests.fakes.engine.dialects.checks import FieldFault, field_fault

_PATHS = re.compile(
    r"/(?:home|usr|opt|var|tmp|root|lib|mnt|srv)(?:/[\w.\-]+)+|(?:/[\w\-]+)+/[\w\-]+\.\w+"
)
"""What it takes for paths of its machine and does not show: those of usual roots, and those that end in a file name."""
_SALT_FORBIDDEN = frozenset("@/\\\0")


class VLLMRequests(Dialect):
    """The request side of the dialect; `VLLM` adds the answers."""

    # errors
    def error(self, status: int, message: str, kind: str, param: str | None = None) -> EngineError:
        shown = _PATHS.sub("<path>", message)
        inner = {"message": shown, "type": kind, "param": param, "code": status}
        return EngineError(status, {"error": inner})

    def invalid(self, fault: FieldFault) -> EngineError:
        place = f"body.{fault.field}" if fault.field else "body"
        parts = {
            "type": fault.kind,
            "loc": place,
            "msg": fault.message,
            "input": _shown(fault.value),
        }
        return self.error(400, f"1 validation error:\n  {parts}", "Bad Request", place)

    def _refuse(self, message: str, param: str, value: object = None) -> EngineError:
        shown = f", value={value}" if value is not None else ""
        return self.bad(f"{message} (parameter={param}{shown})", param)

    # requests
    def check_fields(self, route: Route, body: Body) -> None:
        required = {"chat": ("messages",), "completion": ()}[route]
        fault = field_fault(body, required)
        if fault is not None:
            raise self.invalid(fault)
        if route == "completion" and not body.get("prompt"):
            if body.get("prompt") == []:
                raise self.bad("You must pass at least one prompt")
            raise self._refuse(
                "Either prompt or prompt_embeds must be provided and non-empty.", "prompt"
            )

    def resolve(self, body: Body, adapters: Mapping[str, str]) -> tuple[str, str | None]:
        name = body.get("model") or self.base_model
        if name in self.options.models:
            return name, None
        if name in adapters:
            return name, name
        known = ", ".join((*self.options.models, *adapters))
        message = f"The model `{name}` does not exist. Valid aliases: {known}."
        raise self.error(404, message, "NotFoundError", "model")

    def check_values(self, route: Route, body: Body) -> None:
        if body.get("stream_options") and not body.get("stream"):
            raise self._refuse(
                "Stream options can only be defined when `stream=True`.", "stream_options"
            )
        if body.get("top_logprobs") and not body.get("logprobs"):
            raise self._refuse(
                "when using `top_logprobs`, `logprobs` must be set to true.", "top_logprobs"
            )
        self._check_salt(body.get("cache_salt"))
        if route == "chat":
            self._check_chat(body)
        self._check_sampling(route, body)

    def _check_chat(self, body: Body) -> None:
        if body.get("tools") and not self.options.tool_parser:
            self._refuse_tools(body.get("tool_choice", "auto"))
        if body.get("chat_template") is not None:
            raise self.bad(
                "Chat template is passed with request, but --trust-request-chat-template is not set."
                " Refused request with untrusted chat template."
            )
        if not body["messages"]:
            raise self.bad(
                "Cannot apply chat template to an empty conversation. Provide at least one message."
            )

    def _refuse_tools(self, choice: object) -> None:
        if choice == "auto":
            raise self.bad(
                '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'
            )
        if isinstance(choice, dict):
            name = choice.get("function", {}).get("name")
            raise self.bad(f'tool_choice=function "{name}" requires --tool-call-parser to be set')

    def _check_salt(self, salt: object) -> None:
        if salt is None:
            return
        if not salt:
            raise self._refuse(
                "Parameter 'cache_salt' must be a non-empty string if provided.", "cache_salt"
            )
        text = str(salt)
        if self.number >= (0, 32) and (len(text) > 128 or _SALT_FORBIDDEN & set(text)):
            raise self._refuse(
                "Parameter 'cache_salt' must be at most 128 characters and must not contain '@', '/', '\\\\', or NUL.",
                "cache_salt",
            )

    def _check_sampling(self, route: Route, body: Body) -> None:
        self._check_max_tokens(route, body)
        temperature, top_p, n = (body.get(name) for name in ("temperature", "top_p", "n"))
        if temperature is not None and temperature < 0:
            shown = float(temperature)
            raise self._refuse(
                f"temperature must be non-negative, got {shown}.", "temperature", shown
            )
        if temperature is not None and temperature > 2:
            shown = float(temperature)
            raise self._refuse(f"temperature must be in [0, 2], got {shown}.", "temperature", shown)
        if top_p is not None and not 0 < top_p <= 1:
            raise self._refuse(
                f"top_p must be in (0, 1], got {float(top_p)}.", "top_p", float(top_p)
            )
        if n is not None and n < 1:
            raise self.bad(f"n must be at least 1, got {n}.")
        if n is not None and n > 1 and temperature == 0:
            raise self.bad(f"n must be 1 when using greedy sampling, got {n}.")
        top = body.get("top_logprobs") or 0
        if top > 20:
            raise self._refuse(
                f"Requested sample logprobs of {top}, which is greater than max allowed: 20",
                "logprobs",
                top,
            )
        stop = body.get("stop")
        if stop == "" or (isinstance(stop, list) and "" in stop):
            raise self.bad("stop cannot contain an empty string.")

    def _check_max_tokens(self, route: Route, body: Body) -> None:
        wanted = self.max_tokens(route, body)
        limit = self.options.limits.max_model_len
        if wanted is not None and wanted < 1:
            raise self._refuse(
                f"max_tokens must be at least 1, got {wanted}.", "max_tokens", wanted
            )
        if wanted is not None and wanted > limit:
            raise self._refuse(
                f"max_tokens={wanted} cannot be greater than max_model_len={limit}."
                " Please request fewer output tokens.",
                "max_tokens",
                wanted,
            )

    def too_long(self, tokens: int) -> EngineError:
        limit = self.options.limits.max_model_len
        return self._refuse(
            f"This model's maximum context length is {limit} tokens. However, your prompt contains at least"
            f" {limit + 1} input tokens, which exceeds this limit even without any output tokens."
            " Please reduce the length of the input prompt.",
            "input_tokens",
            limit + 1,
        )


def _shown(value: object) -> str:
    if isinstance(value, dict | list):
        return f"<{type(value).__name__} of {len(value)} items>"
    return str(value)
