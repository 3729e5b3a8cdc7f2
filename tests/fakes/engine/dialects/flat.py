"""What SGLang and TensorRT-LLM share: flat errors, chunks without vLLM's extras. Read in sources, not run."""

from __future__ import annotations

from abc import abstractmethod
from hashlib import sha256
from typing import Any

from tests.fakes.engine.asks import EngineError, Route
from tests.fakes.engine.dialects.base import (
    Choice,
    Dialect,
    Envelope,
    Usage,
    chat_logprobs_at,
    completion_logprobs,
    tool_call,
)


class FlatDialect(Dialect):
    """Errors are not wrapped in `error`; the stop reason has the name `stop_field`."""

    stop_field: str

    def error(self, status: int, message: str, kind: str, param: str | None = None) -> EngineError:
        body = {"object": "error", "message": message, "type": kind, "param": param, "code": status}
        return EngineError(status, body)

    @abstractmethod
    def usage(self, usage: Usage) -> dict[str, Any]:
        """The usage block."""

    @abstractmethod
    def message(self, text: str | None, calls: list[dict[str, Any]] | None) -> dict[str, Any]:
        """The message of a chat answer."""

    @abstractmethod
    def first_delta(self) -> dict[str, Any]:
        """The delta that opens a choice."""

    @abstractmethod
    def piece_delta(self, piece: str) -> dict[str, Any]:
        """The delta of one token."""

    def tail(self, envelope: Envelope) -> dict[str, Any]:
        """What follows the usage of a whole answer."""
        return {}

    def whole(
        self, envelope: Envelope, choices: list[Choice], usage: Usage | None
    ) -> dict[str, Any]:
        chat = envelope.ask.route == "chat"
        body = self._head(envelope, "chat.completion" if chat else "text_completion")
        body["choices"] = [self._whole_choice(envelope, choice) for choice in choices]
        if usage is not None:
            body["usage"] = self.usage(usage)
        return body | self.tail(envelope)

    def _whole_choice(self, envelope: Envelope, choice: Choice) -> dict[str, Any]:
        ask, logprobs = envelope.ask, None
        own: dict[str, Any] = {"index": choice.index}
        if ask.route == "completion":
            own["text"] = choice.text
            if ask.top_logprobs is not None:
                logprobs = completion_logprobs(choice, 0, len(choice.ids), ask.top_logprobs)
        else:
            calls = [tool_call(choice.tool, choice.text, envelope.ident)] if choice.tool else None
            own["message"] = self.message(None if choice.tool else choice.text, calls)
            logprobs = chat_logprobs_at(choice, 0, len(choice.ids), ask.top_logprobs)
        ends = {"finish_reason": choice.finish_reason, self.stop_field: choice.stop_reason}
        return own | {"logprobs": logprobs} | ends

    def opening(self, envelope: Envelope, index: int, usage: Usage | None) -> dict[str, Any] | None:
        if envelope.ask.route == "completion":
            return None
        return self._chunk(
            envelope, self._stream_choice(index, {"delta": self.first_delta()}, None), usage
        )

    def delta(
        self, envelope: Envelope, choice: Choice, at: int, usage: Usage | None
    ) -> dict[str, Any]:
        piece = choice.pieces[at] if at < len(choice.pieces) else ""
        last = at + 1 >= len(choice.ids)
        if envelope.ask.route == "completion":
            content: dict[str, Any] = {"text": piece if at else choice.echo + piece}
            logprobs = None
        else:
            content = {
                "delta": self._tool_delta(envelope, choice, piece, at)
                if choice.tool
                else self.piece_delta(piece)
            }
            logprobs = chat_logprobs_at(choice, at, at + 1, envelope.ask.top_logprobs)
        own = self._stream_choice(choice.index, content, logprobs)
        if last:
            own |= {"finish_reason": choice.finish_reason, self.stop_field: choice.stop_reason}
        return self._chunk(envelope, own, usage)

    def _tool_delta(
        self, envelope: Envelope, choice: Choice, piece: str, at: int
    ) -> dict[str, Any]:
        call = {"index": 0, "function": {"arguments": piece}}
        if not at:
            call = {"index": 0, **tool_call(choice.tool or "", piece, envelope.ident)}
        return self.piece_delta("") | {"content": None, "tool_calls": [call]}

    def _stream_choice(
        self, index: int, content: dict[str, Any], logprobs: object
    ) -> dict[str, Any]:
        ends = {"finish_reason": None, self.stop_field: None}
        return {"index": index, **content, "logprobs": logprobs, **ends}

    def closing(self, envelope: Envelope, usage: Usage) -> dict[str, Any]:
        return self._head(envelope, self._chunk_object(envelope)) | {
            "choices": [],
            "usage": self.usage(usage),
        }

    def _chunk(
        self, envelope: Envelope, choice: dict[str, Any], usage: Usage | None
    ) -> dict[str, Any]:
        chunk = self._head(envelope, self._chunk_object(envelope)) | {"choices": [choice]}
        if usage is not None:
            chunk["usage"] = self.usage(usage)
        elif self.null_usage:
            chunk["usage"] = None
        return chunk

    null_usage = False
    """Chunks without usage carry `usage: null`."""

    def _chunk_object(self, envelope: Envelope) -> str:
        return "chat.completion.chunk" if envelope.ask.route == "chat" else "text_completion"

    def _head(self, envelope: Envelope, kind: str) -> dict[str, Any]:
        return {
            "id": envelope.ident,
            "object": kind,
            "created": envelope.created,
            "model": envelope.model,
        }

    def _hex(self, serial: int) -> str:
        return sha256(f"{self.options.name}/{serial}".encode()).hexdigest()[:32]

    def counts(self, usage: Usage) -> dict[str, Any]:
        return {
            "prompt_tokens": usage.prompt_tokens,
            "total_tokens": usage.prompt_tokens + usage.completion_tokens,
            "completion_tokens": usage.completion_tokens,
        }


def route_prefix(route: Route) -> str:
    return "chatcmpl-" if route == "chat" else "cmpl-"
