"""What every engine shares: OpenAI's requests and answers in the form most of them copied from one another.

A dialect is stateless apart from its options. It turns a body into an `Ask` or an `EngineError`, and facts
about an answer into the exact JSON its engine would send.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import msgspec

from tests.fakes.engine import lexicon
from tests.fakes.engine.asks import Ask, Body, EngineError, Route, stops_of, text_of, tool_of
from tests.fakes.engine.dialects.checks import FieldFault, not_an_object
from tests.fakes.engine.lexicon import Lexicon
from tests.fakes.engine.metrics import EngineStats, Family
from tests.fakes.engine.options import EngineOptions


class Load(NamedTuple):
    """The state of the engine that a metrics page shows."""

    running: int
    waiting: int
    deferred: int
    kv_usage_ratio: float
    used_blocks: int


class Usage(msgspec.Struct):
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    created_cache_tokens: int = 0


class Choice(msgspec.Struct):
    """One answer, whole: its tokens, and the text each of them adds."""

    index: int
    pieces: list[str]
    ids: list[int]
    finish_reason: str
    stop_reason: str | None = None
    tool: str | None = None
    echo: str = ""

    @property
    def text(self) -> str:
        return self.echo + "".join(self.pieces)


class Envelope(NamedTuple):
    """What all parts of one answer carry."""

    ident: str
    created: int
    model: str
    ask: Ask


class Dialect(ABC):
    """One engine's protocol."""

    newest: ClassVar[str]
    metrics_path: ClassVar[str] = "/metrics"
    tokenize_paths: ClassVar[tuple[str, str]] = ("/tokenize", "/detokenize")
    lora_paths: ClassVar[tuple[str, str]] = ("", "")
    owned_by: ClassVar[str]

    def __init__(self, options: EngineOptions) -> None:
        self.options = options
        self.version = options.version or self.newest
        self.number = tuple(int(part) for part in self.version.split(".")[:2])
        self.base_model = options.models[0]

    # errors
    @abstractmethod
    def error(self, status: int, message: str, kind: str, param: str | None = None) -> EngineError:
        """An error in the engine's shape, as a value to raise or to send."""

    @abstractmethod
    def invalid(self, fault: FieldFault) -> EngineError:
        """What the engine says when its request schema refuses a field."""

    def bad(self, message: str, param: str | None = None) -> EngineError:
        return self.error(400, message, "BadRequestError", param)

    def stream_error(self, status: int, message: str, kind: str) -> object:
        """Payload of an error event in the middle of a stream."""
        body = self.error(status, message, kind).body
        return body if isinstance(body, dict) and "error" in body else {"error": body}

    # requests
    def read(self, route: Route, body: object, words: Lexicon, adapters: Mapping[str, str]) -> Ask:
        """The request, checked in the engine's order.

        Raises:
            EngineError: What the engine answers instead.
        """
        if not isinstance(body, dict):
            raise self.invalid(not_an_object(body))
        self.check_fields(route, body)
        model, adapter = self.resolve(body, adapters)
        self.check_values(route, body)
        prompts, echoes = self._prompts(route, body, words)
        ask = self._ask(route, body, model, adapter)
        ask.prompts, ask.echo_texts = prompts, echoes
        self._check_length(ask)
        return ask

    @abstractmethod
    def check_fields(self, route: Route, body: Body) -> None:
        """The request schema: unknown, missing and mistyped fields."""

    @abstractmethod
    def check_values(self, route: Route, body: Body) -> None:
        """Values of the right type that the engine still refuses."""

    @abstractmethod
    def resolve(self, body: Body, adapters: Mapping[str, str]) -> tuple[str, str | None]:
        """The model name to answer with and the adapter that serves it."""

    def too_long(self, tokens: int) -> EngineError:
        limit = self.options.limits.max_model_len
        return self.bad(
            f"This model's maximum context length is {limit} tokens. However, your prompt contains at least"
            f" {tokens} input tokens. Please reduce the length of the input prompt.",
            "input_tokens",
        )

    def _check_length(self, ask: Ask) -> None:
        for prompt in ask.prompts:
            for token in prompt:
                if not 0 <= token < lexicon.VOCABULARY:
                    raise self.bad(f"Token id {token} is out of vocabulary")
            if len(prompt) >= self.options.limits.max_model_len:
                raise self.too_long(len(prompt))

    def _ask(self, route: Route, body: Body, model: str, adapter: str | None) -> Ask:
        stream_options = body.get("stream_options") or {}
        wants = body.get("logprobs")
        top = body.get("top_logprobs") or 0 if route == "chat" and wants else wants
        return Ask(
            route=route,
            model=model,
            adapter=adapter,
            prompts=[],
            echo_texts=[],
            max_tokens=self.max_tokens(route, body),
            stream=bool(body.get("stream")),
            include_usage=bool(stream_options.get("include_usage", self.usage_in_streams(body))),
            continuous_usage=bool(stream_options.get("continuous_usage_stats")),
            choices=int(body.get("n") or 1),
            stop=stops_of(body.get("stop")),
            seed=int(body.get("seed") or 0),
            ignore_eos=bool(body.get("ignore_eos")),
            salt=str(body.get("cache_salt") or ""),
            top_logprobs=top if isinstance(top, int) and not isinstance(top, bool) else None,
            return_token_ids=bool(body.get("return_token_ids")),
            tool=tool_of(body) if self.options.tool_parser else None,
        )

    def usage_in_streams(self, body: Body) -> bool:
        """Whether streams end with usage when the request does not say."""
        return False

    def max_tokens(self, route: Route, body: Body) -> int | None:
        value = body.get("max_completion_tokens", body.get("max_tokens"))
        if value is None and route == "completion":
            return 16
        return value if isinstance(value, int) else None

    def _prompts(
        self, route: Route, body: Body, words: Lexicon
    ) -> tuple[list[list[int]], list[str]]:
        if route == "chat":
            return [self.render_chat(body, words)], [""]
        given = body.get("prompt")
        parts = (
            [given]
            if isinstance(given, str) or (given and isinstance(given[0], int))
            else given or []
        )
        prompts = [words.encode(part) if isinstance(part, str) else list(part) for part in parts]
        echoes = [words.decode(prompt) if body.get("echo") else "" for prompt in prompts]
        return prompts, echoes

    def render_chat(self, body: Body, words: Lexicon) -> list[int]:
        """The chat template: a role token before and an end token after each message."""
        tokens: list[int] = []
        messages = body["messages"]
        open_end = bool(body.get("continue_final_message"))
        for message in messages:
            tokens.append(lexicon.ROLE_IDS.get(message.get("role", "user"), 4))
            tokens += words.encode(text_of(message.get("content")))
            tokens.append(lexicon.END_OF_TURN)
        if open_end:
            tokens.pop()
        elif body.get("add_generation_prompt", True):
            tokens.append(lexicon.ROLE_IDS["assistant"])
        return tokens

    # answers
    @abstractmethod
    def ident(self, route: Route, request_id: str, serial: int) -> str:
        """The id of an answer."""

    @abstractmethod
    def whole(
        self, envelope: Envelope, choices: list[Choice], usage: Usage | None
    ) -> dict[str, Any]:
        """The body of an answer that is not streamed."""

    @abstractmethod
    def opening(self, envelope: Envelope, index: int, usage: Usage | None) -> dict[str, Any] | None:
        """The first chunk of a choice, None when the engine sends none."""

    @abstractmethod
    def delta(
        self, envelope: Envelope, choice: Choice, at: int, usage: Usage | None
    ) -> dict[str, Any]:
        """The chunk of token number `at`; the last one carries the finish reason."""

    @abstractmethod
    def closing(self, envelope: Envelope, usage: Usage) -> dict[str, Any]:
        """The usage chunk before [DONE]."""

    # the rest of the surface
    @abstractmethod
    def families(self, stats: EngineStats, load: Load) -> list[Family]:
        """The metrics page."""

    def models(self, adapters: Mapping[str, str]) -> dict[str, Any]:
        now = int(time.time())
        cards = [self.card(name, now, None) for name in self.options.models]
        cards += [self.card(name, now, path) for name, path in adapters.items()]
        return {"object": "list", "data": cards}

    @abstractmethod
    def card(self, name: str, created: int, adapter_path: str | None) -> dict[str, Any]:
        """One entry of /v1/models."""

    def load_adapter(self, body: Body, adapters: dict[str, str]) -> object:
        """Load a LoRA adapter: the answer's body; `adapters` maps names to paths.

        Raises:
            EngineError: The adapter is not loaded.
        """
        raise self.error(404, "Not Found", "NotFoundError")

    def unload_adapter(self, body: Body, adapters: dict[str, str]) -> object:
        raise self.error(404, "Not Found", "NotFoundError")

    def tokenized(self, tokens: list[int]) -> dict[str, Any]:
        limit = self.options.limits.max_model_len
        return {"count": len(tokens), "max_model_len": limit, "tokens": tokens}

    def extra_get(self, path: str, load: Load) -> object | None:
        """Other GET paths that answer JSON; None: there is no such path."""
        return None


def tool_call(name: str, arguments: str, ident: str) -> dict[str, Any]:
    return {
        "id": f"call_{ident}",
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }


def logprob_of(token: int) -> float:
    """A plausible log probability, fixed by the token."""
    return -0.01 * (token % 97 + 1)


def chat_logprobs(piece: str, token: int, top: int) -> dict[str, Any]:
    """One entry of `logprobs.content`."""
    own = {"token": piece, "logprob": logprob_of(token), "bytes": list(piece.encode())}
    others = [
        {
            "token": f" alt{rank}",
            "logprob": logprob_of(token) - rank,
            "bytes": list(f" alt{rank}".encode()),
        }
        for rank in range(1, top)
    ]
    return {**own, "top_logprobs": [own, *others] if top else []}


def chat_logprobs_at(
    choice: Choice, start: int, end: int, top: int | None
) -> dict[str, Any] | None:
    """`logprobs` of a stretch of tokens, None when they were not asked for."""
    if top is None:
        return None
    entries = zip(choice.pieces[start:end], choice.ids[start:end], strict=True)
    return {"content": [chat_logprobs(piece, token, top) for piece, token in entries]}


def completion_logprobs(choice: Choice, start: int, end: int, top: int) -> dict[str, Any]:
    pieces, tokens = choice.pieces[start:end], choice.ids[start:end]
    offset = len("".join(choice.pieces[:start]))
    offsets = [offset + len("".join(pieces[:at])) for at in range(len(pieces))]
    return {
        "text_offset": offsets,
        "token_logprobs": [logprob_of(token) for token in tokens],
        "tokens": pieces,
        "top_logprobs": [{piece: logprob_of(t)} for piece, t in zip(pieces, tokens, strict=True)]
        if top
        else [],
    }
