"""Our own gateway as the benchmark sees it: real key, hard budget, rate limits, fence, price, breaker and metering on.

The policy comes through Redis as it does in the product. Nothing reads the ledger here, so `Ledger` does what ingest
does for the gateway: it takes the usage stream and raises the watermark, on the load generator's core.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import redis

from console.launcher.embedded import EmbeddedValkey
from policies.schema import sealing, wire
from policies.schema.credentials import digest, mint
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
from telemetry import events

ULID = "01JBENCHM4RKBENCHM4RKBENCH"


@dataclass(frozen=True)
class Ground:
    """What a gateway process needs to start: a home, a broker with a snapshot in it, secrets and a key."""

    env: dict[str, str]
    api_key: str


@contextmanager
def ground(folder: Path, engine_port: int) -> Iterator[Ground]:
    pepper, secret = os.urandom(32), os.urandom(32)
    api_key = mint("live")
    folder.mkdir()
    server = EmbeddedValkey(folder, durable=False)
    url = server.start()
    ledger = Ledger(url)
    try:
        with redis.Redis.from_url(url) as client:
            _publish(client, _snapshot(engine_port, digest(pepper, api_key)), secret)
        ledger.start()
        env = {
            "ACE_HOME": str(folder),
            "REDIS_URL": url,
            "ACE_KEY_PEPPER": pepper.hex(),
            "ACE_SNAPSHOT_SECRET": secret.hex(),
            "ACE_GATEWAY_WORKERS": "1",
        }
        yield Ground(env, api_key)
    finally:
        ledger.finish()
        server.stop()


def _publish(client: redis.Redis, snapshot: Snapshot, secret: bytes) -> None:
    envelope = sealing.seal(snapshot, secret)
    client.hset(wire.SNAPSHOT_KEY, mapping={"version": snapshot.version, "envelope": envelope})
    client.publish(wire.SNAPSHOT_CHANNEL, snapshot.version)


def _snapshot(engine_port: int, key_digest: str) -> Snapshot:
    tenant, key, pool = f"ten_{ULID}", f"key_{ULID}", f"pool_{ULID}"
    return Snapshot(
        version=1,
        policy_revision=1,
        created_at_ms=int(time.time() * 1000),
        tenants=(Tenant(id=tenant, name="bench", geo_fence=GeoFence(allowed_regions=("local",))),),
        keys=(
            Key(
                id=key,
                tenant=tenant,
                name="bench",
                digests=(KeyDigest(digest=key_digest),),
                rate_limits=RateLimits(
                    requests_per_minute=600_000_000,
                    tokens_per_minute=10_000_000_000,
                    concurrency=100_000,
                ),
            ),
        ),
        pools=(
            Pool(
                id=pool,
                name="bench",
                model="m",
                engine="vllm",
                endpoints=(
                    Endpoint(
                        id=f"ep_{ULID}", base_url=f"http://127.0.0.1:{engine_port}", region="local"
                    ),
                ),
                price=Price(
                    id=f"price_{ULID}",
                    input_microusd_per_mtok=150_000,
                    output_microusd_per_mtok=600_000,
                ),
            ),
        ),
        budgets=(_budget("tenant", tenant, "A"), _budget("key", key, "B")),
        documents=(
            PolicyDocument(scope="global", skills={"circuit_breaker": {"mode": "enforce"}}),
        ),
    )


def _budget(scope: str, subject: str, mark: str) -> Budget:
    return Budget.model_validate(
        {
            "id": f"bud_{ULID[:-1]}{mark}",
            "name": scope,
            "scope": scope,
            "subject": subject,
            "limit_microusd": 10**12,
            "window": "month",
            "mode": "hard",
        }
    )


class Ledger(threading.Thread):
    """Takes every event off the usage stream and says so, as `telemetry.ingest` does, and primes budgets at 0."""

    def __init__(self, url: str) -> None:
        super().__init__(name="bench-ledger", daemon=True)
        self._client = redis.Redis.from_url(url)
        self._stopped = threading.Event()

    def finish(self) -> None:
        self._stopped.set()
        if self.is_alive():
            self.join()

    def run(self) -> None:
        last = "0"
        while not self._stopped.is_set():
            self._prime()
            entries: Any = self._client.xread({events.USAGE_STREAM: last}, count=2000)
            if not entries:
                self._stopped.wait(0.05)
                continue
            batch = entries[0][1]
            last = batch[-1][0]
            marks = {fields[b"s"]: int(fields[b"q"]) for _, fields in batch}
            self._client.hset(events.WATERMARK_KEY, mapping=marks)
            self._client.xtrim(events.USAGE_STREAM, minid=last)
        self._client.close()

    def _prime(self) -> None:
        while isinstance(item := self._client.lpop(wire.BUDGET_PRIME_LIST), bytes):
            budget, _, window = item.decode().rpartition(":")
            key = wire.BUDGET_KEY.format(budget_id=budget, window_start_ms=window)
            self._client.hsetnx(key, "base_microusd", 0)
