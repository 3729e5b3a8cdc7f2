"""Brings the newest snapshot to Redis, only ever upwards, whoever else is trying to do the same."""

from __future__ import annotations

from typing import Any, Final

from console import broker
from policies.schema import wire

_RAISE: Final = """
local there = tonumber(redis.call('HGET', KEYS[1], 'version') or '0')
local ours = tonumber(ARGV[1])
if there > ours then return there end
if there == ours and redis.call('HEXISTS', KEYS[1], 'envelope') == 1 then return there end
redis.call('HSET', KEYS[1], 'version', ARGV[1], 'envelope', ARGV[2])
redis.call('PUBLISH', ARGV[3], ARGV[1])
return ours
"""


def snapshot_announce(version: int, envelope: bytes) -> int:
    """The version that stands in Redis afterwards; higher than ours when another publish was quicker.

    Raises redis.RedisError when the server is away.
    """
    channel = wire.SNAPSHOT_CHANNEL
    done: Any = broker.client().eval(_RAISE, 1, wire.SNAPSHOT_KEY, str(version), envelope, channel)
    return int(done)


def version_announced() -> int:
    """0: Redis knows none. Raises redis.RedisError."""
    client = broker.client()
    version, whole = (
        client.hget(wire.SNAPSHOT_KEY, "version"),
        client.hexists(wire.SNAPSHOT_KEY, "envelope"),
    )
    return int(version) if version and whole else 0
