"""KV cache events over ZMQ, as vLLM and SGLang publish them: PUB frames and a replay ROUTER.

Frames are [topic, sequence as 8 bytes big-endian, msgpack [timestamp, [events], rank]]. Events are maps
from vLLM 0.24 on and positional arrays before; a reader must take both.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque

import msgspec
import zmq

from tests.fakes.engine.blocks import StoredBlocks

_END = (-1).to_bytes(8, "big", signed=True)
_encode = msgspec.msgpack.Encoder().encode


class KVEventPublisher:
    """Publishes on two ports of its own choosing; `skip` and `restart` make the gaps a reader must survive."""

    def __init__(
        self, topic: str, block_tokens: int, *, as_maps: bool, buffer_steps: int = 10_000
    ) -> None:
        self.topic = topic
        self._block_tokens = block_tokens
        self._as_maps = as_maps
        self._context = zmq.Context()
        self._pub = self._context.socket(zmq.PUB)
        self._replay = self._context.socket(zmq.ROUTER)
        self.port = self._pub.bind_to_random_port("tcp://127.0.0.1")
        self.replay_port = self._replay.bind_to_random_port("tcp://127.0.0.1")
        self._sent: deque[tuple[int, bytes]] = deque(maxlen=buffer_steps)
        self._sequence = 0
        self._skip = 0
        self._loop = asyncio.get_running_loop()
        self._descriptor: int = self._replay.FD
        self._loop.add_reader(self._descriptor, self._answer_replays)

    def stored(self, blocks: StoredBlocks) -> None:
        self._publish(self._stored_event(blocks))

    def removed(self, names: list[int]) -> None:
        if self._as_maps:
            self._publish({"type": "BlockRemoved", "block_hashes": names, "medium": "GPU"})
        else:
            self._publish(["BlockRemoved", names, "GPU"])

    def cleared(self) -> None:
        self._publish({"type": "AllBlocksCleared"} if self._as_maps else ["AllBlocksCleared"])

    def skip(self, batches: int) -> None:
        """Lose the next batches on the wire; the replay socket still has them."""
        self._skip = batches

    def restart(self) -> None:
        """Count from zero again with an empty replay buffer, as a restarted engine does."""
        self._sequence = 0
        self._sent.clear()

    def close(self) -> None:
        self._loop.remove_reader(self._descriptor)
        self._pub.close(0)
        self._replay.close(0)
        self._context.term()

    def _stored_event(self, blocks: StoredBlocks) -> object:
        extra = _extra_keys(blocks)
        lora_id = 1 if blocks.lora else None
        if not self._as_maps:
            head = ["BlockStored", blocks.hashes, blocks.parent, blocks.tokens, self._block_tokens]
            return [*head, lora_id, "GPU", blocks.lora, extra]
        return {
            "type": "BlockStored",
            "block_hashes": blocks.hashes,
            "parent_block_hash": blocks.parent,
            "token_ids": blocks.tokens,
            "block_size": self._block_tokens,
            "lora_id": lora_id,
            "medium": "GPU",
            "lora_name": blocks.lora,
            "extra_keys": extra,
            "group_idx": 0,
            "kv_cache_spec_kind": "full_attention",
        }

    def _publish(self, event: object) -> None:
        payload = _encode([time.time(), [event], 0])
        sequence, self._sequence = self._sequence, self._sequence + 1
        self._sent.append((sequence, payload))
        if self._skip:
            self._skip -= 1
            return
        self._pub.send_multipart(
            [self.topic.encode(), sequence.to_bytes(8, "big"), payload], zmq.NOBLOCK
        )

    def _answer_replays(self) -> None:
        # ZMQ's descriptor is edge-triggered: read until nothing is left.
        while self._replay.poll(0, zmq.POLLIN):
            frames = self._replay.recv_multipart()
            client, start = frames[0], int.from_bytes(frames[-1], "big")
            head = [client, *frames[1:-1]]
            for sequence, payload in self._sent:
                if sequence >= start:
                    number = sequence.to_bytes(8, "big")
                    self._replay.send_multipart([*head, self.topic.encode(), number, payload])
            self._replay.send_multipart([*head, b"", _END, b""])


def _extra_keys(blocks: StoredBlocks) -> list[list[str] | None]:
    keys: list[list[str] | None] = [[blocks.lora] if blocks.lora else None for _ in blocks.hashes]
    if blocks.salt and blocks.parent is None:  # the salt goes into the first block of a chain only
        keys[0] = [*(keys[0] or []), blocks.salt]
    return keys
