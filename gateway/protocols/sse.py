"""Server-sent events: framing in every legal form, and the filter every OpenAI-style stream passes.

Events go through as the bytes they came in; only a usage event nobody asked for is taken out. Most reads hold whole
`\\n\\n`-ended events with nothing to see to: those are counted and passed without being split.
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

import orjson

from gateway.protocols.errors import Refused
from gateway.protocols.usage import AnswerView, TokenUsage, view_answer

MAX_CARRY_BYTES: Final = 1 << 20

# Atomic groups: `\r\n` is one line end and must never be read as two.
_BLANK_LINE: Final = re.compile(rb"(?>\r\n|\r|\n)(?>\r\n|\r|\n)")
# In a read that ends in `\r\n\r` the other half of the blank line is still to come: cutting there would orphan it.
_BLANK_LINE_IN_READ: Final = re.compile(
    rb"\r\n(?>\r\n|\n|\r(?!\Z))|(?>\r(?!\n)|(?<!\r)\n)(?>\r\n|\r|\n)"
)
_LINE_END: Final = re.compile(rb"\r\n|\r|\n")
_BOM: Final = b"\xef\xbb\xbf"

# A quote inside a JSON string is always escaped, so these can only be keys with a non-empty text.
_OUTPUT: Final = re.compile(
    rb'"(?:content|reasoning_content|reasoning|refusal|arguments|text)"\s*:\s*"(?!")'
)
_count_output: Final = _OUTPUT.findall


# What an event must hold to be more than text. A quote inside a JSON string is escaped; `event:` may be text as well,
# which costs time and nothing else.
_MARKERS: Final = (b'"usage"', b"[DONE]", b'"error"', b"event:")


class Event(NamedTuple):
    raw: bytes
    """As it came, with the blank line that ends it."""
    name: bytes
    data: bytes
    """Data lines joined by a line feed; empty for comments and blank events."""


def parse_event(raw: bytes) -> Event:
    """Fields of one event by the rules of the HTML standard; `id` and `retry` are not ours to act on."""
    if raw.startswith(b"data: ") and raw.find(b"\n") == len(raw) - 2 and b"\r" not in raw:
        return Event(raw, b"", raw[6:-2])  # one line: nearly every event there is
    name = b""
    data: list[bytes] = []
    for line in _LINE_END.split(raw):
        field, _, value = line.partition(b":")
        if field == b"data":
            data.append(value.removeprefix(b" "))
        elif field == b"event":
            name = value.removeprefix(b" ")
    return Event(raw, name, b"\n".join(data))


class EventFramer:
    """Cuts a stream into whole events, whatever the line ends and wherever the reads fall."""

    __slots__ = ("_carry", "_scanned", "_started")

    def __init__(self) -> None:
        self._carry = b""
        self._scanned = 0
        self._started = False

    @property
    def carried(self) -> bool:
        return bool(self._carry)

    def whole(self, data: bytes) -> bytes:
        """The longest prefix of what was carried and `data` that consists of whole events; keeps the rest.

        Raises Refused when one event outgrows MAX_CARRY_BYTES.
        """
        if not self._started:
            data = self._without_bom(data)
        if self._carry:
            data = self._carry + data
        end = self._last_end(data)
        self._carry = data[end:]
        if len(self._carry) > MAX_CARRY_BYTES:
            raise Refused("upstream_bad_response")
        # Bytes searched once are not searched again, or one long event in small reads would cost its square.
        self._scanned = max(0, len(self._carry) - 3)
        return data[:end] if self._carry else data

    def rest(self) -> bytes:
        """What is left when the stream ends: an event without its blank line."""
        rest, self._carry = self._carry, b""
        return rest

    def _without_bom(self, data: bytes) -> bytes:
        data = self._carry + data
        self._carry = b""
        if len(data) < len(_BOM) and _BOM.startswith(data):
            self._carry = data
            return b""
        self._started = True
        return data.removeprefix(_BOM)

    def _last_end(self, data: bytes) -> int:
        if b"\r" not in data:
            return data.rfind(b"\n\n", self._scanned) + 2 if b"\n\n" in data else 0
        end = 0
        for match in _BLANK_LINE_IN_READ.finditer(data, self._start(data)):
            end = match.end()
        return end

    def _start(self, data: bytes) -> int:
        """Where to search from: never between the two halves of a `\\r\\n`."""
        start = self._scanned
        return start - 1 if start and data[start - 1 : start + 1] == b"\r\n" else start


def split_events(data: bytes) -> list[bytes]:
    """Whole events in `data`, which must end with one (`EventFramer.whole` sees to that)."""
    if b"\r" not in data:
        return [part + b"\n\n" for part in data[:-2].split(b"\n\n")]
    events, begin = [], 0
    for match in _BLANK_LINE.finditer(data):
        events.append(data[begin : match.end()])
        begin = match.end()
    return events


def _plain_bytes(data: bytes) -> int:
    """Length of the longest prefix of whole events that can only be text: nothing in it ends, bills or fails."""
    if b"\r" in data:
        return 0
    first = len(data)
    for marker in _MARKERS:
        at = data.find(marker, 0, first)
        if at >= 0:
            first = at
    if first == len(data):
        return first
    end = data.rfind(b"\n\n", 0, first)
    return 0 if end < 0 else end + 2


class StreamFilter:
    """Passes an OpenAI-style stream on and learns from it what billing and failure handling need.

    `feed` returns what the client shall get. After `done` or `fault` everything that follows is dropped.
    """

    __slots__ = ("_framer", "_hide_usage", "done", "fault", "output_events", "usage")

    def __init__(self, *, hide_usage: bool) -> None:
        self._framer = EventFramer()
        self._hide_usage = hide_usage
        self.output_events = 0
        """Events that carried text: the tokens to pay for when no usage came."""
        self.usage: TokenUsage | None = None
        """The last one reported."""
        self.done = False
        """`[DONE]` was seen: the only sign that the answer is complete."""
        self.fault: bytes | None = None
        """JSON of an error the engine sent inside the stream. It is not passed on; the caller renders its own."""

    def feed(self, data: bytes) -> bytes:
        """Raises Refused `upstream_bad_response` when an event is too large."""
        if self.done or self.fault is not None:
            return b""
        data = self._framer.whole(data)
        if not data:
            return b""
        plain = _plain_bytes(data)
        if plain == len(data):
            self.output_events += len(_count_output(data))
            return data
        head = data[:plain]
        self.output_events += len(_count_output(head))
        return head + self._each(split_events(data[plain:]))

    def end(self) -> bytes:
        """The stream's body is over: what the client still gets. An unfinished last event counts if it has data."""
        rest = self._framer.rest()
        if not rest or self.done or self.fault is not None:
            return b""
        return self._each([rest + b"\n\n"]) if parse_event(rest).data else b""

    def _each(self, events: list[bytes]) -> bytes:
        kept: list[bytes] = []
        for raw in events:
            event = self._see(raw)
            if event:
                kept.append(event)
            if self.done or self.fault is not None:
                break
        return b"".join(kept)

    def _see(self, raw: bytes) -> bytes:
        """Learn from one event; returns it, changed or not, or nothing."""
        _, name, data = parse_event(raw)
        if data == b"[DONE]":
            self.done = True
            return raw
        self.output_events += len(_count_output(data))
        if name == b"error":
            self.fault = data
            return b""
        if b'"usage"' not in data and b'"error"' not in data:
            return raw
        view = view_answer(data)
        if view is None:
            return raw
        if view.error is not None:
            self.fault = data
            return b""
        return self._see_usage(raw, data, view)

    def _see_usage(self, raw: bytes, data: bytes, view: AnswerView) -> bytes:
        usage = view.token_usage()
        if usage is not None:
            self.usage = usage
        if not self._hide_usage:
            return raw
        if usage is not None and not view.choices:
            return b""
        return _without_usage(data)


def _without_usage(data: bytes) -> bytes:
    document: dict[str, Any] = orjson.loads(data)
    document.pop("usage", None)
    return b"data: " + orjson.dumps(document) + b"\n\n"
