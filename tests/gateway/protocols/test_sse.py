from __future__ import annotations

import itertools

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.protocols.errors import Refused
from gateway.protocols.sse import (
    MAX_CARRY_BYTES,
    EventFramer,
    StreamFilter,
    parse_event,
    split_events,
)

CONTENT = b'data: {"choices":[{"index":0,"delta":{"content":"h\xc3\xa9llo"}}]}\n\n'
ROLE = b'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}\n\n'
TOOL = b'data: {"choices":[{"delta":{"tool_calls":[{"function":{"arguments":"{\\"a\\":"}}]}}]}\n\n'
STOP = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":2}}\n\n'
DONE = b"data: [DONE]\n\n"
STREAM = ROLE + CONTENT + TOOL + STOP + USAGE + DONE


def run(data: bytes, *cuts: int, hide: bool = True) -> tuple[bytes, StreamFilter]:
    stream = StreamFilter(hide_usage=hide)
    edges = [0, *sorted(cuts), len(data)]
    pieces = [data[a:b] for a, b in itertools.pairwise(edges)]
    return b"".join(stream.feed(piece) for piece in pieces) + stream.end(), stream


@pytest.mark.parametrize("cut", range(len(STREAM) + 1))
def test_a_stream_cut_anywhere_is_the_same_stream(cut: int) -> None:
    output, stream = run(STREAM, cut)
    assert output == STREAM.replace(USAGE, b"")
    assert (stream.usage, stream.done, stream.output_events) == ((5, 2, 0), True, 2)


def test_a_stream_cut_everywhere_is_the_same_stream() -> None:
    output, stream = run(STREAM, *range(len(STREAM)))
    assert output == STREAM.replace(USAGE, b"")
    assert (stream.usage, stream.done, stream.output_events) == ((5, 2, 0), True, 2)


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"], ids=["LF", "CRLF", "CR"])
@pytest.mark.parametrize("step", [1, 2, 3, 7, 10_000])
def test_every_line_end_is_legal_at_every_cut(end: bytes, step: int) -> None:
    data = STREAM.replace(b"\n", end)
    output, stream = run(data, *range(0, len(data), step))
    assert output == data.replace(USAGE.replace(b"\n", end), b"")
    assert (stream.usage, stream.done, stream.output_events) == ((5, 2, 0), True, 2)


@given(st.lists(st.sampled_from([CONTENT, ROLE, TOOL, STOP, b": ping\n\n", b"\n"])), st.data())
def test_whole_events_always_pass_unchanged(events: list[bytes], data: st.DataObject) -> None:
    ends = [b"\n", b"\r\n", b"\r"]
    text = b"".join(e.replace(b"\n", data.draw(st.sampled_from(ends))) for e in events) + DONE
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=5))
    output, stream = run(text, *cuts)
    assert output == text
    assert stream.done
    assert stream.output_events == events.count(CONTENT) + events.count(TOOL)


def test_a_client_that_asked_for_usage_gets_it() -> None:
    output, stream = run(STREAM, hide=False)
    assert output == STREAM
    assert stream.usage == (5, 2, 0)


def test_usage_in_one_read_with_the_end_is_found() -> None:
    stream = StreamFilter(hide_usage=True)
    assert stream.feed(CONTENT + USAGE + DONE) == CONTENT + DONE
    assert stream.usage == (5, 2, 0)


def test_usage_beside_choices_is_hidden_without_losing_the_choices() -> None:
    event = b'data: {"choices":[{"delta":{"content":"a"}}],"usage":{"prompt_tokens":5,"completion_tokens":1}}\n\n'
    output, stream = run(event + DONE)
    assert orjson.loads(parse_event(output).data.split(b"\n")[0]) == {
        "choices": [{"delta": {"content": "a"}}]
    }
    assert stream.usage == (5, 1, 0)
    assert stream.output_events == 1


def test_null_usage_in_each_event_is_hidden_too() -> None:
    event = b'data: {"choices":[{"delta":{"content":"a"}}],"usage":null}\n\n'
    output, stream = run(event + USAGE + DONE)
    assert output == b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n' + DONE
    assert stream.usage == (5, 2, 0)


def test_the_last_usage_wins_and_an_unbelievable_one_is_none() -> None:
    later = USAGE.replace(b'"completion_tokens":2', b'"completion_tokens":9')
    assert run(USAGE + later + DONE)[1].usage == (5, 9, 0)
    assert run(USAGE.replace(b":5", b":-5") + DONE)[1].usage is None


@pytest.mark.parametrize(
    "text",
    ['"usage"', "usage", "[DONE]", '{"error":1}', "data: [DONE]\n\n", "\r\n\r\n", '"content":"x"'],
)
def test_what_the_model_says_is_never_taken_for_framing(text: str) -> None:
    event = b"data: " + orjson.dumps({"choices": [{"delta": {"content": text}}]}) + b"\n\n"
    output, stream = run(event + CONTENT + DONE)
    assert output == event + CONTENT + DONE
    assert (stream.usage, stream.fault, stream.done, stream.output_events) == (None, None, True, 2)


@pytest.mark.parametrize(
    "event",
    [
        b'data: {"error":{"message":"no memory","code":500}}\n\n',
        b'data: {"error": {"message": "no memory"}}\n\n',
        b'event: error\ndata: {"message":"no memory"}\n\n',
        b"event: error\r\ndata: no memory\r\n\r\n",
    ],
)
def test_an_error_inside_a_stream_ends_it_and_is_not_a_finished_answer(event: bytes) -> None:
    output, stream = run(CONTENT + event + CONTENT + DONE)
    assert output == CONTENT
    assert stream.fault is not None
    assert b"no memory" in stream.fault
    assert not stream.done


def test_a_null_error_is_none() -> None:
    event = b'data: {"choices":[{"delta":{"content":"a"}}],"error":null}\n\n'
    output, stream = run(event + DONE)
    assert output == event + DONE
    assert stream.fault is None


def test_nothing_follows_the_end() -> None:
    output, _ = run(DONE + CONTENT)
    assert output == DONE


def test_a_stream_that_stops_without_its_end_is_not_done() -> None:
    output, stream = run(CONTENT)
    assert output == CONTENT
    assert not stream.done


def test_a_last_event_without_its_blank_line_counts() -> None:
    output, stream = run(CONTENT + b"data: [DONE]")
    assert stream.done
    assert output.startswith(CONTENT + b"data: [DONE]")
    assert run(CONTENT + b"data: [DONE]\n")[1].done
    assert run(CONTENT + b": comment")[0] == CONTENT


def test_comments_pass_and_are_not_tokens() -> None:
    output, stream = run(b": keep-alive\n\n" + CONTENT + DONE)
    assert output == b": keep-alive\n\n" + CONTENT + DONE
    assert stream.output_events == 1


def test_a_byte_order_mark_is_dropped_wherever_it_is_cut() -> None:
    for cut in range(5):
        output, stream = run(b"\xef\xbb\xbf" + USAGE + DONE, cut)
        assert output == DONE
        assert stream.usage == (5, 2, 0)


def test_data_on_several_lines_is_one_event() -> None:
    event = (
        b'data: {"choices":[],\ndata:"usage":{"prompt_tokens":5,\ndata: "completion_tokens":2}}\n\n'
    )
    output, stream = run(event + DONE, *range(len(event)))
    assert output == DONE
    assert stream.usage == (5, 2, 0)


def test_fields_are_parsed_as_the_standard_says() -> None:
    event = parse_event(b":c\nevent:x\nevent: y\ndata\ndata:  a\nid: 1\nother: z\n\n")
    assert (event.name, event.data) == (b"y", b"\n a")


def test_an_event_that_never_ends_is_refused_and_costs_linear_time() -> None:
    stream = StreamFilter(hide_usage=True)
    piece = b"x" * 1024
    for _ in range(MAX_CARRY_BYTES // len(piece)):
        assert stream.feed(piece) == b""
    with pytest.raises(Refused) as caught:
        stream.feed(piece)
    assert caught.value.code == "upstream_bad_response"


def test_a_large_event_in_small_reads_is_found() -> None:
    event = b'data: {"choices":[{"delta":{"content":"' + b"x" * 300_000 + b'"}}]}\r\n\r\n'
    framer = EventFramer()
    output = b"".join(framer.whole(event[i : i + 999]) for i in range(0, len(event), 999))
    assert output == event
    assert not framer.carried


def test_whole_events_are_split_with_their_ends() -> None:
    assert split_events(b"a\n\nb\n\n") == [b"a\n\n", b"b\n\n"]
    assert split_events(b"a\r\n\r\nb\r\rc\n\n") == [b"a\r\n\r\n", b"b\r\r", b"c\n\n"]


def test_spaced_json_is_counted_too() -> None:
    event = b'data: {"choices": [{"delta": {"content": "a"}}, {"delta": {"content": ""}}]}\n\n'
    assert run(event)[1].output_events == 1


def test_what_ends_a_stream_does_not_change_how_the_text_before_it_is_read() -> None:
    """One read with everything in it says what an event at a time says."""
    quoted = b'data: {"choices":[{"delta":{"content":"an \\"usage\\" of event: x"}}]}\n\n'
    events = [quoted, TOOL, CONTENT, USAGE, DONE]
    output, glued = run(b"".join(events))
    apart = StreamFilter(hide_usage=True)
    assert output == b"".join(map(apart.feed, events)) == quoted + TOOL + CONTENT + DONE
    assert glued.output_events == apart.output_events == 3
    assert glued.usage == apart.usage == (5, 2, 0)
