"""What most tests of the data plane need: a small snapshot, a Redis with it in, an engine that answers, a ledger."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import httpx
import orjson
import redis
import redis.asyncio

from gateway import tasks
from gateway.app import Gateway
from gateway.settings import Settings
from policies.schema import wire
from policies.schema.credentials import digest, mint
from policies.schema.sealing import seal
from policies.schema.snapshot import (
    Budget,
    Endpoint,
    GeoFence,
    Key,
    KeyDigest,
    PolicyDocument,
    Pool,
    Price,
    RateLimits,
    Snapshot,
    Tenant,
)
from telemetry.events import USAGE_STREAM, WATERMARK_KEY, Event, RequestFinished, decode

PEPPER = b"p" * 32
SECRET = b"s" * 32
KEY = mint("live")
MODEL = "gpt-x"
PRICE = Price(id="price_1", input_microusd_per_mtok=1_000_000, output_microusd_per_mtok=2_000_000)
"""One micro-dollar an input token, two an output token."""


def settings(home: Path, **changes: Any) -> Settings:
    made = Settings(
        home=home,
        redis_url=os.environ["REDIS_URL"],
        listen_host="127.0.0.1",
        port=0,
        workers=1,
        http="own",
        key_pepper=PEPPER,
        snapshot_secret=SECRET,
        allowed_hosts=frozenset(),
        segment_bytes=1 << 20,
        drain_s=2.0,
        node="test",
    )
    return replace(made, **changes)


def snapshot(version: int = 1, **parts: Any) -> Snapshot:
    """One tenant, one key, one pool; `parts` replaces any of it."""
    ports = parts.pop("ports", (9,))
    fence = parts.pop("fence", None)
    endpoints = tuple(
        Endpoint(id=f"ep_{n}", base_url=f"http://127.0.0.1:{port}", region="eu-west-1")
        for n, port in enumerate(ports, 1)
    )
    pool = Pool(
        id="pool_1",
        name="Pool",
        model=MODEL,
        engine="vllm",
        endpoints=endpoints,
        price=PRICE,
        max_output_tokens=100,
    )
    key = Key(
        id="key_1",
        tenant="ten_1",
        name="Key",
        digests=(KeyDigest(digest=digest(PEPPER, KEY)),),
        rate_limits=parts.pop("limits", RateLimits()),
    )
    geo = None if fence is None else GeoFence(allowed_regions=fence)
    whole: dict[str, Any] = {
        "tenants": (Tenant(id="ten_1", name="Tenant", geo_fence=geo),),
        "keys": (key,),
        "pools": (pool,),
        "budgets": (),
        "documents": (),
        **parts,
    }
    return Snapshot(version=version, policy_revision=1, created_at_ms=1, **whole)


def budget(limit: int, **changes: Any) -> Budget:
    fields: dict[str, Any] = {
        "id": "bud_1",
        "name": "Team budget",
        "scope": "key",
        "subject": "key_1",
        "limit_microusd": limit,
        "window": "month",
    }
    return Budget(**fields | changes)


def breaker(**fields: Any) -> PolicyDocument:
    return PolicyDocument(scope="global", skills={"circuit_breaker": {"mode": "enforce", **fields}})


def publish(client: redis.Redis, made: Snapshot) -> None:
    envelope = seal(made, SECRET)
    client.hset(wire.SNAPSHOT_KEY, mapping={"version": made.version, "envelope": envelope})
    client.publish(wire.SNAPSHOT_CHANNEL, str(made.version))


class Ledger:
    """Stands in for ingest: primes budgets, reads the stream, raises the watermark. `rows` is what it holds."""

    def __init__(self, url: str, *, spent: int = 0) -> None:
        self._redis = redis.asyncio.Redis.from_url(url)
        self._spent = spent
        self.events: list[Event] = []
        self.primed = 0
        self._last: bytes | str = "0"
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.get_running_loop().create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        await tasks.cancel(self._task)
        await self._redis.aclose()

    @property
    def rows(self) -> list[RequestFinished]:
        return [event for event in self.events if isinstance(event, RequestFinished)]

    @property
    def billed(self) -> int:
        return sum(row.billed_microusd for row in self.rows)

    async def _run(self) -> None:
        while True:
            await self._prime()
            await self._read()
            await asyncio.sleep(0.01)

    async def _prime(self) -> None:
        while isinstance(asked := await self._redis.lpop(wire.BUDGET_PRIME_LIST), bytes):
            await self._redis.hsetnx(
                f"ace:budget:{asked.decode()}", "base_microusd", self._spent + self.billed
            )
            self.primed += 1

    async def _read(self) -> None:
        answer: Any = await self._redis.xread({USAGE_STREAM: self._last}, 1000)
        for _, entries in answer or ():
            for entry_id, fields in entries:
                self._last = entry_id
                event = decode(fields[b"e"])
                if event not in self.events:
                    self.events.append(event)
                await self._redis.hset(WATERMARK_KEY, fields[b"s"], fields[b"q"])


Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter, dict[str, Any]], Awaitable[None]]


class Engine:
    """A scripted engine: each request is handed to `handler`; `seen` holds the bodies it accepted."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self.seen: list[dict[str, Any]] = []
        self.heads: list[bytes] = []
        self.gone = 0
        self.gone_at = 0.0
        self.port = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
                body = orjson.loads(await reader.readexactly(length))
                self.seen.append(body)
                self.heads.append(head)
                await self._handler(reader, writer, body)
        except (asyncio.IncompleteReadError, ConnectionError):
            self.gone += 1
            self.gone_at = time.monotonic()
        finally:
            writer.close()


def unary_answer(prompt: int = 10, completion: int = 5, status: int = 200) -> bytes:
    body = orjson.dumps(
        {
            "id": "x",
            "object": "chat.completion",
            "choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}}],
            "usage": {"prompt_tokens": prompt, "completion_tokens": completion},
        }
    )
    return http(status, body)


def http(status: int, body: bytes, kind: bytes = b"application/json") -> bytes:
    return b"HTTP/1.1 %d X\r\ncontent-type: %b\r\ncontent-length: %d\r\n\r\n%b" % (
        status,
        kind,
        len(body),
        body,
    )


STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
)


def chunk(event: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(event), event)


def token(text: str) -> bytes:
    delta = {"choices": [{"index": 0, "delta": {"content": text}}]}
    return b"data: " + orjson.dumps(delta) + b"\n\n"


def usage_event(prompt: int, completion: int) -> bytes:
    usage = {"prompt_tokens": prompt, "completion_tokens": completion}
    return b"data: " + orjson.dumps({"choices": [], "usage": usage}) + b"\n\n"


DONE = b"data: [DONE]\n\n"


async def answer_all(
    _reader: asyncio.StreamReader, writer: asyncio.StreamWriter, body: dict[str, Any]
) -> None:
    """Answers everything at once, plain or streamed: 10 tokens in, 5 out."""
    if not body.get("stream"):
        writer.write(unary_answer())
        return
    events = [token(f"t{n}") for n in range(5)] + [usage_event(10, 5), DONE]
    writer.write(STREAM_HEAD + b"".join(chunk(event) for event in events) + b"0\r\n\r\n")


@asynccontextmanager
async def running(made: Settings, door: str = "own") -> AsyncIterator[tuple[Gateway, str]]:
    """A worker in this process behind either door; yields it and its base URL."""
    import uvicorn

    from gateway.app import build_app
    from gateway.server.protocol import protocol_factory
    from gateway.server.uvicorn_http import GuardedHttp

    gateway = build_app(made)
    own = door == "own"
    config = uvicorn.Config(
        gateway if own else gateway.any_server,
        http=protocol_factory(gateway.door, gateway.limits) if own else GuardedHttp,
        port=0,
        ws="none",
        interface="asgi3",
        lifespan="on",
        loop="asyncio",
        access_log=False,
        log_config=None,
        proxy_headers=False,
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
    task = asyncio.get_running_loop().create_task(server._serve())
    while not server.started:
        if task.done():
            await task
            raise RuntimeError("the gateway did not start")
        await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield gateway, f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        await task


def ask(stream: bool = False, max_tokens: int = 5, **more: Any) -> dict[str, Any]:
    return {
        "model": MODEL,
        "messages": [{"role": "user", "content": "hello"}],
        "max_tokens": max_tokens,
        **({"stream": True} if stream else {}),
        **more,
    }


def client(url: str, key: str = KEY) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        base_url=url, headers={"authorization": f"Bearer {key}"}, timeout=10, trust_env=False
    )


async def eventually(condition: Callable[[], bool], within_s: float = 5.0) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError("it did not come true in time")
        await asyncio.sleep(0.01)
