"""KV events as a reader meets them: both wire forms, gaps that the replay socket fills, and restarts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import msgspec
import pytest
import zmq
import zmq.asyncio

from tests.fakes.engine import EngineOptions, FakeEngine

pytestmark = pytest.mark.enable_socket

PROMPT = "word " * 40


class Reader:
    def __init__(self, engine: FakeEngine) -> None:
        assert engine.kv is not None
        self._engine = engine
        self.context = zmq.asyncio.Context()
        self.socket = self.context.socket(zmq.SUB)
        self.socket.connect(f"tcp://127.0.0.1:{engine.kv.port}")
        self.socket.setsockopt(zmq.SUBSCRIBE, b"")
        self.replay = self.context.socket(zmq.REQ)
        self.replay.connect(f"tcp://127.0.0.1:{engine.kv.replay_port}")

    async def ask(self, text: str, **fields: Any) -> None:
        body = {"model": "fake-model", "prompt": text, "max_tokens": 1, **fields}
        async with httpx.AsyncClient(trust_env=False) as http:
            (await http.post(f"{self._engine.url}/v1/completions", json=body)).raise_for_status()

    async def next(self) -> tuple[int, Any]:
        _, number, payload = await asyncio.wait_for(self.socket.recv_multipart(), 2)
        return int.from_bytes(number, "big"), msgspec.msgpack.decode(payload)[1][0]


@asynccontextmanager
async def reading(version: str = "") -> AsyncIterator[tuple[FakeEngine, Reader]]:
    async with FakeEngine(EngineOptions(kv_events=True, version=version)) as engine:
        reader = Reader(engine)
        await asyncio.sleep(0.1)  # a subscriber that has just joined misses what is sent meanwhile
        try:
            yield engine, reader
        finally:
            reader.context.destroy(0)


async def test_new_versions_send_maps_that_chain_from_block_to_block() -> None:
    async with reading() as (_, reader):
        await reader.ask(PROMPT, cache_salt="tenant")
        number, event = await reader.next()
        assert (number, event["type"], event["block_size"], event["parent_block_hash"]) == (
            0,
            "BlockStored",
            16,
            None,
        )
        assert len(event["token_ids"]) == 16 * len(event["block_hashes"])
        assert event["extra_keys"][:2] == [["tenant"], None]
        await reader.ask(
            PROMPT + "and twenty more words of this prompt make a longer chain of blocks here",
            cache_salt="tenant",
        )
        _, further = await reader.next()
        assert further["parent_block_hash"] in event["block_hashes"]


async def test_old_versions_send_arrays() -> None:
    async with reading("0.19.1") as (_, reader):
        await reader.ask(PROMPT)
        _, event = await reader.next()
        assert event[0] == "BlockStored"
        assert event[4] == 16


async def test_a_lost_batch_is_a_gap_that_the_replay_socket_fills() -> None:
    async with reading() as (engine, reader):
        assert engine.kv is not None
        await reader.ask("first " * 20)
        first, _ = await reader.next()
        engine.kv.skip(1)
        await reader.ask("second " * 20)
        await reader.ask("third " * 20)
        third, _ = await reader.next()
        assert third == first + 2
        await reader.replay.send((first + 1).to_bytes(8, "big"))
        frames = await asyncio.wait_for(reader.replay.recv_multipart(), 2)
        assert int.from_bytes(frames[-2], "big") == first + 1


async def test_a_restart_counts_from_zero_again() -> None:
    async with reading() as (engine, reader):
        await reader.ask("first " * 20)
        await reader.ask("second " * 20)
        numbers = [(await reader.next())[0] for _ in range(2)]
        engine.kill()
        await engine.revive()
        await reader.ask("first " * 20)
        assert [*numbers, (await reader.next())[0]] == [0, 1, 0]


async def test_clearing_the_cache_is_announced() -> None:
    async with reading() as (engine, reader):
        engine.clear_cache()
        assert (await reader.next())[1] == {"type": "AllBlocksCleared"}
