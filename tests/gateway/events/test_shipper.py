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
        assert await shipper.ship_batch()
    entries: Any = valkey.xrange(USAGE_STREAM)
    sequences = [int(fields[b"q"]) for _, fields in entries]
    bases = {int(fields[b"b"]) for _, fields in entries}
    assert sequences == [5, 6, 7, 8]
    assert bases == {spool.first_seq}
    assert 1 < spool.first_seq <= 5, "what the ledger has was let go"
    spool.close()
