"""The spool keeps what was appended, whatever happens to the process, and refuses work it could not record."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gateway.events import recovery
from gateway.events.segment import Segment, allocate, existing_segments, segment_path
from gateway.events.slot import Slot, SlotBusyError
from gateway.events.spool import Spool, SpoolFullError
from telemetry.events import RequestOpened, RequestProgressed, encode

SIZE = 1 << 16


def opened(request_id: str, bound: int = 100) -> RequestOpened:
    return RequestOpened(
        request_id,
        "ten_1",
        "key_1",
        "m",
        "pool_1",
        "ep_1",
        1000,
        bound,
        500,
        "price_1",
        1_000_000,
        2_000_000,
        7,
        stream=True,
        budget_ids=("bud_1",),
    )


def frames(directory: Path) -> list[tuple[int, bytes]]:
    return [frame for segment in existing_segments(directory) for frame in segment.frames()]


def wait_for(condition: object, within_s: float = 5.0) -> None:
    assert callable(condition)
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.01)


def test_sequences_rise_across_segments_and_restarts(tmp_path: Path) -> None:
    spool = Spool(tmp_path, [], SIZE, 1 << 30)
    for n in range(100):
        wait_for(lambda: spool.has_room(3000))
        spool.record(b"%04d" % n + b"x" * 3000)
    spool.close()
    assert len(list(tmp_path.glob("segment-*"))) > 3
    found = recovery.read(tmp_path)
    assert found.unreadable == 100
    again = Spool(tmp_path, found.segments, SIZE, 1 << 30)
    assert again.record(b"after") == 101
    again.close()
    read = frames(tmp_path)
    assert [seq for seq, _ in read] == list(range(1, 102))
    assert [payload[:4] for _, payload in read[:100]] == [b"%04d" % n for n in range(100)]


def test_a_torn_frame_ends_the_segment_and_is_not_read(tmp_path: Path) -> None:
    path = segment_path(tmp_path, 1)
    allocate(path, SIZE)
    segment = Segment(path, 1)
    segment.append(1, b"whole")
    end = segment.at
    segment.append(2, b"torn apart")
    segment.close()
    with path.open("r+b") as file:
        file.seek(end + 20)
        file.write(b"\0\0")
    assert frames(tmp_path) == [(1, b"whole")]


CHILD = """
import sys
from pathlib import Path
from gateway.events.spool import Spool
spool = Spool(Path(sys.argv[1]), [], 1 << 22, 1 << 30)
n = 0
while True:
    if spool.has_room(100):
        n += 1
        spool.record(b"%08d" % n)
        if n % 50 == 0:
            sys.stdout.write("%d\\n" % n)
            sys.stdout.flush()
"""


@pytest.mark.parametrize("round_", range(5))
def test_a_killed_process_loses_nothing_it_appended(tmp_path: Path, round_: int) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    for _ in range(20 + 37 * round_):
        child.stdout.readline()
    child.send_signal(signal.SIGKILL)
    rest = child.stdout.read().split()
    child.stdout.close()
    child.wait()
    said = max(int(line) for line in rest) if rest else (20 + 37 * round_) * 50
    read = frames(tmp_path)
    assert len(read) >= said
    assert [int(payload) for _, payload in read] == list(range(1, len(read) + 1))


def _fill(spool: Spool) -> list[Segment]:
    """Opens requests until the spool takes no more; where each was written."""
    segments: list[Segment] = []
    with contextlib.suppress(SpoolFullError):
        while len(segments) < 1000:
            segments.append(spool.open(b"o" * 900))
    return segments


def _is_full(spool: Spool) -> bool:
    return spool.full


def test_a_full_disk_refuses_new_requests_keeps_ends_and_heals(tmp_path: Path) -> None:
    spool = Spool(tmp_path, [], SIZE, SIZE)
    segments = _fill(spool)
    assert _is_full(spool)
    assert len(segments) > 5
    for segment in segments:
        spool.finish(segment, b"e" * 900)
    assert not spool.deferred or spool.full
    spool._max_bytes = 1 << 30
    wait_for(lambda: spool._spare_ready)
    spool.write_deferred()
    assert not _is_full(spool)
    spool.open(b"again")
    spool.close()
    read = [payload for _, payload in frames(tmp_path)]
    assert read.count(b"e" * 900) == read.count(b"o" * 900) == len(segments)


def test_segments_go_only_below_the_watermark_and_without_open_requests(tmp_path: Path) -> None:
    spool = Spool(tmp_path, [], SIZE, 1 << 30)
    held = spool.open(b"long stream")
    for _ in range(60):
        wait_for(lambda: spool.has_room(3000))
        spool.record(b"x" * 3000)
    last = spool.last_seq
    wait_for(lambda: spool.durable_seq == last)
    spool.sync()
    assert spool.drop_below(last + 1) == 0, "the first segment holds the opening of a request"
    spool.finish(held, b"end")
    spool.sync()
    assert spool.drop_below(0) == 0
    assert spool.drop_below(spool.last_seq + 1) >= 2
    assert spool.segments[-1].last_seq == spool.last_seq
    spool.close()


def test_durable_follows_appended_within_the_interval(tmp_path: Path) -> None:
    spool = Spool(tmp_path, [], SIZE, 1 << 30)
    seq = spool.record(b"x")
    wait_for(lambda: spool.durable_seq == seq, 1.0)
    spool.close()


def test_recovery_ends_each_open_request_once(tmp_path: Path) -> None:
    spool = Spool(tmp_path, [], SIZE, 1 << 30)
    spool.open(encode(opened("req_a")))
    spool.open(encode(opened("req_b", bound=10)))
    spool.note(encode(RequestProgressed("req_a", 3)))
    spool.note(encode(RequestProgressed("req_a", 8)))
    spool.close()

    found = recovery.read(tmp_path)
    charged: list[tuple[str, int]] = []
    again = Spool(tmp_path, found.segments, SIZE, 1 << 30)
    count = recovery.close_interrupted(
        found, again.record, lambda event, billed: charged.append((event.request_id, billed)), 5000
    )
    again.close()
    assert count == 2
    assert charged == [("req_a", 100 + 16), ("req_b", 10)]
    assert recovery.read(tmp_path).opened == {}


def test_a_slot_has_one_owner_and_one_name_for_ever(tmp_path: Path) -> None:
    slot = Slot(tmp_path / "0", "node a", 0.0)
    with pytest.raises(SlotBusyError):
        Slot(tmp_path / "0", "node a", 0.05)
    name = slot.spool_id
    slot.close()
    again = Slot(tmp_path / "0", "other", 0.0)
    assert again.spool_id == name
    assert name.startswith("node-a-0-")
    again.close()
    assert list((tmp_path / "0").iterdir())
