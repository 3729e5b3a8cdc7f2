from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import redis
import redis.asyncio

from gateway.events.shipper import Shipper
from gateway.events.spool import Spool
from telemetry.events import USAGE_STREAM, WATERMARK_KEY

pytestmark = [pytest.mark.integration, pytest.mark.enable_socket]

PAYLOAD = b"x" * 1500
SEGMENT_BYTES = 4096


async def test_each_entry_says_what_the_spool_still_has(
    tmp_path: Path, valkey: redis.Redis
) -> None:
    """A ledger restored from an older backup must not wait for events that are gone."""
    spool = Spool(tmp_path, [], SEGMENT_BYTES, 64 * SEGMENT_BYTES)
    async with redis.asyncio.Redis.from_url(os.environ["REDIS_URL"]) as client:
        shipper = Shipper(client, spool, "spool-a")
        for _ in range(8):
            spool.sync()
            spool._keep_spare()
            spool.record(PAYLOAD)
        spool.sync()
        valkey.hset(WATERMARK_KEY, "spool-a", 5)
        await shipper.refresh()
        while await shipper.ship_batch():
            pass
    entries: Any = valkey.xrange(USAGE_STREAM)
    sequences = [int(fields[b"q"]) for _, fields in entries]
    bases = {int(fields[b"b"]) for _, fields in entries}
    assert sequences == [5, 6, 7, 8]
    assert bases == {spool.first_seq}
    assert 1 < spool.first_seq <= 5, "what the ledger has was let go"
    spool.close()


async def test_it_goes_on_behind_a_segment_that_was_let_go_under_it(
    tmp_path: Path, valkey: redis.Redis
) -> None:
    """A ledger that knows more than was shipped from here: restored beside an older spool."""
    spool = Spool(tmp_path, [], SEGMENT_BYTES, 64 * SEGMENT_BYTES)
    async with redis.asyncio.Redis.from_url(os.environ["REDIS_URL"]) as client:
        shipper = Shipper(client, spool, "spool-b")
        await shipper.refresh()
        spool.record(PAYLOAD)
        spool.sync()
        assert await shipper.ship_batch()
        spool._keep_spare()
        for _ in range(3):
            spool.record(PAYLOAD)
        spool.sync()
        valkey.hset(WATERMARK_KEY, "spool-b", 3)
        await shipper.refresh()
        assert spool.first_seq == 3
        assert await shipper.ship_batch()
        assert not await shipper.ship_batch()
    assert shipped(valkey) == [1, 3, 4]
    spool.close()


async def test_a_large_backlog_goes_in_parts_and_each_event_once(
    tmp_path: Path, valkey: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.events.shipper.BATCH_BYTES", 3500)
    spool = Spool(tmp_path, [], 1 << 16, 1 << 20)
    async with redis.asyncio.Redis.from_url(os.environ["REDIS_URL"]) as client:
        shipper = Shipper(client, spool, "spool-c")
        await shipper.refresh()
        sizes = [10, 3000, 600, 5000, 1, 1600, 1600, 300]
        for size in sizes:
            spool.record(b"%d" % size + b"x" * size)
        spool.sync()
        rounds = 0
        while await shipper.ship_batch():
            rounds += 1
    assert rounds == 5
    assert shipped(valkey) == [1, 2, 3, 4, 5, 6, 7, 8]
    entries: Any = valkey.xrange(USAGE_STREAM)
    assert [len(fields[b"e"]) for _, fields in entries] == [n + len(str(n)) for n in sizes]
    spool.close()


async def test_after_a_lost_redis_only_what_is_above_the_watermark_goes_again(
    tmp_path: Path, valkey: redis.Redis
) -> None:
    spool = Spool(tmp_path, [], 1 << 16, 1 << 20)
    async with redis.asyncio.Redis.from_url(os.environ["REDIS_URL"]) as client:
        shipper = Shipper(client, spool, "spool-d")
        await shipper.refresh()
        for _ in range(6):
            spool.record(PAYLOAD)
        spool.sync()
        assert await shipper.ship_batch()
        valkey.flushdb()
        valkey.hset(WATERMARK_KEY, "spool-d", 4)
        await shipper.refresh()
        assert await shipper.ship_batch()
    assert shipped(valkey) == [4, 5, 6]
    spool.close()


def shipped(valkey: redis.Redis) -> list[int]:
    entries: Any = valkey.xrange(USAGE_STREAM)
    return [int(fields[b"q"]) for _, fields in entries]
