"""Messages of a chat request: their types, and how many tokens may come of what is not text.

An engine that meets a wrong type answers in its own words, with a 500, or guesses. So it is refused here, by name.
"""

from __future__ import annotations

from typing import Any, Final

from gateway.protocols.errors import invalid
from gateway.protocols.openai_objects import check_function

ROLES: Final = frozenset(("system", "developer", "user", "assistant", "tool", "function"))

IMAGE_TOKENS: Final = 16_384
"""Input tokens one image may become: the most that the Qwen-VL family makes of one (12.8 megapixels at 28 x 28).
Its URL may be shorter than that."""
CLIP_TOKENS: Final = 65_536
"""The same of a video, a linked recording or a document."""
_TOKENS_OF: Final = {
    **dict.fromkeys(("text", "input_text", "output_text", "refusal", "thinking", "reasoning"), 0),
    "input_audio": 0,  # comes inside the body, and a second of sound is far more bytes than tokens
    **dict.fromkeys(("audio_url", "video_url", "video", "file", "input_file"), CLIP_TOKENS),
}
"""By type of a content part; one that is not listed counts as an image."""


def check_messages(messages: Any) -> int:
    """Input tokens that images and the like may add to the text. Raises Refused that names the message."""
    if type(messages) is not list or not messages:
        raise invalid("messages", "'messages' must be a non-empty list.")
    tokens = 0
    for index, message in enumerate(messages):
        if type(message) is not dict:
            raise invalid(f"messages[{index}]", f"'messages[{index}]' must be an object.")
        role = message.get("role")
        if type(role) is not str or role not in ROLES:
            known = ", ".join(sorted(ROLES))
            raise invalid(f"messages[{index}].role", f"'role' must be one of: {known}.")
        content = message.get("content")
        if content is not None and type(content) is not str:
            tokens += _part_tokens(index, content)
        if len(message) > 2:  # noqa: PLR2004 - most have a role and a content, and nothing to look at
            _check_rest(index, message)
    return tokens


def _part_tokens(index: int, content: Any) -> int:
    param = f"messages[{index}].content"
    if type(content) is not list:
        raise invalid(param, "'content' must be a string or a list of parts.")
    tokens = 0
    for number, part in enumerate(content):
        kind = part.get("type") if type(part) is dict else None
        if type(kind) is not str:
            raise invalid(param, "Each part of 'content' must be an object with a 'type'.")
        if kind == "text" and type(part.get("text")) is not str:
            raise invalid(f"{param}[{number}].text", "'text' must be a string.")
        tokens += _TOKENS_OF.get(kind, IMAGE_TOKENS)
    return tokens


def _check_rest(index: int, message: dict[str, Any]) -> None:
    for name in ("name", "tool_call_id", "refusal"):
        value = message.get(name)
        if value is not None and type(value) is not str:
            raise invalid(f"messages[{index}].{name}", f"'{name}' must be a string.")
    calls = message.get("tool_calls")
    if calls is None:
        return
    param = f"messages[{index}].tool_calls"
    if type(calls) is not list:
        raise invalid(param, "'tool_calls' must be a list.")
    for number, call in enumerate(calls):
        if type(call) is not dict:
            raise invalid(f"{param}[{number}]", f"'tool_calls[{number}]' must be an object.")
        check_function(f"{param}[{number}].function", call.get("function"), "arguments")
