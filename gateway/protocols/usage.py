"""Token usage as OpenAI-style engines report it. Absent is None, never zero."""

from __future__ import annotations

from typing import Annotated, Any, Final, NamedTuple

import msgspec

Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 40)]


class PromptTokensDetails(msgspec.Struct):
    cached_tokens: Count | None = None


class CompletionUsage(msgspec.Struct):
    prompt_tokens: Count
    completion_tokens: Count = 0
    prompt_tokens_details: PromptTokensDetails | None = None


class TokenUsage(NamedTuple):
    """`cached` is part of `input`."""

    input: int
    output: int
    cached: int


class AnswerView(msgspec.Struct):
    """What settling and checking need of an answer or stream event; msgspec skips the rest without building it."""

    choices: list[msgspec.Raw] | None = None
    usage: CompletionUsage | None = None
    error: Any = None
    data: list[msgspec.Raw] | None = None
    """Vectors."""

    def token_usage(self) -> TokenUsage | None:
        usage = self.usage
        if usage is None:
            return None
        details = usage.prompt_tokens_details
        cached = (details.cached_tokens or 0) if details is not None else 0
        return TokenUsage(
            usage.prompt_tokens, usage.completion_tokens, min(cached, usage.prompt_tokens)
        )


class _LooseView(msgspec.Struct):
    choices: list[msgspec.Raw] | None = None
    error: Any = None
    data: list[msgspec.Raw] | None = None


_decode: Final = msgspec.json.Decoder(AnswerView).decode
_decode_loosely: Final = msgspec.json.Decoder(_LooseView).decode


def view_answer(data: bytes) -> AnswerView | None:
    """None: not the JSON of an answer. Usage that cannot be believed (negative, fractional, text) is no usage."""
    try:
        return _decode(data)
    except msgspec.ValidationError:
        pass
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
    try:
        loose = _decode_loosely(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
    return AnswerView(loose.choices, None, loose.error, loose.data)
