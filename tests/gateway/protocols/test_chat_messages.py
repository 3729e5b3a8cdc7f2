from __future__ import annotations

from typing import Any

import orjson
import pytest

from gateway.protocols import openai_chat
from gateway.protocols.chat_messages import CLIP_TOKENS, IMAGE_TOKENS, check_messages
from gateway.protocols.errors import Refused

CALL = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
IMAGE = {"type": "image_url", "image_url": {"url": "http://x/y.png"}}


@pytest.mark.parametrize(
    ("message", "param"),
    [
        ({"role": "user", "content": [{"type": "text"}]}, "content[0].text"),
        ({"role": "user", "content": [IMAGE, {"type": "text", "text": 5}]}, "content[1].text"),
        ({"role": "user", "content": "a", "name": 5}, "name"),
        ({"role": "tool", "content": "a", "tool_call_id": ["x"]}, "tool_call_id"),
        ({"role": "assistant", "content": None, "tool_calls": "x"}, "tool_calls"),
        ({"role": "assistant", "content": None, "tool_calls": [5]}, "tool_calls[0]"),
        (
            {"role": "assistant", "content": None, "tool_calls": [CALL, {"function": 5}]},
            "tool_calls[1].function",
        ),
        (
            {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": 5}}]},
            "tool_calls[0].function.name",
        ),
        (
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"function": {"name": "f", "arguments": {}}}],
            },
            "tool_calls[0].function.arguments",
        ),
    ],
)
def test_a_wrong_type_inside_a_message_is_refused_by_name(
    message: dict[str, Any], param: str
) -> None:
    with pytest.raises(Refused) as caught:
        check_messages([{"role": "user", "content": "a"}, message])
    assert (caught.value.code, caught.value.status) == ("invalid_request", 400)
    assert caught.value.param == f"messages[1].{param}"


@pytest.mark.parametrize(
    "message",
    [
        {"role": "assistant", "content": None, "tool_calls": [CALL], "refusal": None, "name": "n"},
        {"role": "assistant", "content": None, "tool_calls": None, "audio": {"id": "a"}},
        {
            "role": "assistant",
            "tool_calls": [{"id": "1", "type": "custom", "custom": {"name": "f"}}],
        },
        {"role": "tool", "tool_call_id": "1", "content": [{"type": "text", "text": "a"}]},
        {"role": "function", "name": "f", "content": "a"},
        {"role": "developer", "content": [{"type": "text", "text": ""}]},
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]},
        {"role": "assistant", "content": "a", "reasoning_content": "b", "x": 5},
    ],
)
def test_a_message_as_clients_send_them_passes_and_adds_nothing(message: dict[str, Any]) -> None:
    assert check_messages([message]) == 0


def test_what_is_not_text_is_counted_in_full_however_it_is_spelled() -> None:
    clip = {"type": "video_url", "video_url": {"url": "http://x/y"}}
    sound = {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "mp3"}}
    novel = {"type": "hologram", "url": "http://x/y"}
    parts = [{"type": "text", "text": "image_url"}, IMAGE, IMAGE, clip, sound, novel]
    body = orjson.dumps({"model": "m", "messages": [{"role": "user", "content": parts}]})
    hidden = body.replace(b"image_url", b"image\\u005furl")
    for data in (body, hidden):
        assert openai_chat.parse(data).media_tokens == 3 * IMAGE_TOKENS + CLIP_TOKENS
