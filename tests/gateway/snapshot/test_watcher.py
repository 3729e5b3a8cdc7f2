"""A snapshot is taken whole or not at all, and the worker says which; with everything down the last good one serves."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import orjson
import pytest
import redis

from gateway.snapshot.last_known_good import LastKnownGood
from policies.schema import wire
from policies.schema.report import WorkerReport
from policies.schema.sealing import canonical_json, seal
from policies.schema.snapshot import Endpoint, PolicyDocument
from tests.gateway import rig

pytestmark = [pytest.mark.enable_socket, pytest.mark.integration]


def put(client: redis.Redis, version: int, envelope: bytes) -> None:
    client.hset(wire.SNAPSHOT_KEY, mapping={"version": version, "envelope": envelope})
    client.publish(wire.SNAPSHOT_CHANNEL, str(version))


def sealed(**parts: Any) -> bytes:
    return seal(rig.snapshot(2, **parts), rig.SECRET)


def edited(change: Callable[[bytes], bytes]) -> bytes:
    return change(sealed())


def header(**changes: Any) -> bytes:
    head, _, body = sealed().partition(b"\n")
    return orjson.dumps(orjson.loads(head) | changes) + b"\n" + body


def with_base_url(url: str) -> bytes:
    made = rig.snapshot(2)
    endpoint = Endpoint(id="ep_1", base_url=url, region=None)
    pool = made.pools[0].model_copy(update={"endpoints": (endpoint,)})
    return seal(made.model_copy(update={"pools": (pool,)}), rig.SECRET)


def unknown_skill() -> bytes:
    return sealed(documents=(PolicyDocument(scope="global", skills={"nonsense": {}}),))


def foreign_credential() -> bytes:
    made = rig.snapshot(2)
    pool = made.pools[0].model_copy(update={"credential": "sealed:1:" + "A" * 64})
    return seal(made.model_copy(update={"pools": (pool,)}), rig.SECRET)


MALFORMED: dict[str, tuple[Callable[[], bytes], str]] = {
    "empty": (lambda: b"", "snapshot_truncated"),
    "no body": (lambda: edited(lambda e: e.partition(b"\n")[0]), "snapshot_truncated"),
    "cut short": (lambda: edited(lambda e: e[:-20]), "snapshot_hash_mismatch"),
    "one byte changed": (lambda: edited(lambda e: e.replace(b"Pool", b"pooL")), "snapshot_hash_mismatch"),
    "appended": (lambda: edited(lambda e: e + b" "), "snapshot_hash_mismatch"),
    "header no JSON": (lambda: b"{oops\n{}", "snapshot_header_invalid"),
    "header lacks a field": (lambda: b'{"version":2}\n{}', "snapshot_header_invalid"),
    "other schema": (lambda: header(schema_version=99), "schema_version_unknown"),
    "other version": (lambda: header(version=3), "snapshot_signature_mismatch"),
    "foreign signature": (lambda: seal(rig.snapshot(2), b"x" * 32), "snapshot_signature_mismatch"),
    "no signature": (lambda: header(hmac=""), "snapshot_signature_mismatch"),
    "not higher": (lambda: seal(rig.snapshot(1), rig.SECRET), "snapshot_version_not_higher"),
    "unknown skill": (unknown_skill, "plan_valueerror"),
    "bad address": (lambda: with_base_url("ftp://example.com"), "plan_valueerror"),
    "address with credentials": (lambda: with_base_url("http://a:b@c"), "plan_valueerror"),
    "key without a tenant": (lambda: sealed(tenants=()), "plan_builderror"),
    "unknown zone": (lambda: sealed(budgets=(rig.budget(1, timezone="Mars/Base"),)), "plan_zoneinfonotfounderror"),
    "foreign credential": (foreign_credential, "secret_unreadable"),
    "too large": (lambda: b"x" * ((64 << 20) + 1), "snapshot_too_large"),
}  # fmt: skip


@pytest.mark.parametrize("case", MALFORMED)
async def test_what_cannot_be_trusted_or_run_is_refused_and_the_old_plan_serves(
    case: str, tmp_path: Path, valkey: redis.Redis
) -> None:
    make, reason = MALFORMED[case]
    rig.publish(valkey, rig.snapshot(1))
    async with rig.running(rig.settings(tmp_path)) as (gateway, url), rig.client(url) as client:
        put(valkey, 2, make())
        state = gateway.worker.watcher.state
        await rig.eventually(lambda: bool(state.reason))
        assert reason in state.reason
        assert gateway.worker.version == 1
        await rig.eventually(lambda: reports(valkey)[0].state == "nack")
        report = reports(valkey)[0]
        assert (report.desired_version, report.actual_version) == (2, 1)
        assert (await client.get("/v1/models")).status_code == 200
        put(valkey, 3, seal(rig.snapshot(3), rig.SECRET))
        await rig.eventually(lambda: gateway.worker.version == 3)


def reports(client: redis.Redis) -> list[WorkerReport]:
    found = client.hgetall(wire.WORKERS_KEY)
    assert isinstance(found, dict)
    return [msgspec.json.decode(raw, type=WorkerReport) for raw in found.values()]


async def test_a_publish_is_acknowledged_within_a_second(
    tmp_path: Path, valkey: redis.Redis
) -> None:
    rig.publish(valkey, rig.snapshot(1))
    async with rig.running(rig.settings(tmp_path)) as (gateway, _):
        await asyncio.sleep(0.3)
        began = time.monotonic()
        rig.publish(valkey, rig.snapshot(2))
        await rig.eventually(lambda: reports(valkey)[0].actual_version == 2)
        assert time.monotonic() - began < 1.0
        report = reports(valkey)[0]
        assert report.state == "ack"
        assert report.ack_ms is not None
        assert 0 < report.ack_ms < 1000
        rig.publish(valkey, rig.snapshot(1))
        await asyncio.sleep(0.2)
        assert gateway.worker.version == 2, "an older snapshot is never taken"


async def test_without_redis_the_last_known_good_serves(
    tmp_path: Path, valkey: redis.Redis
) -> None:
    rig.publish(valkey, rig.snapshot(7))
    async with rig.running(rig.settings(tmp_path)):
        pass
    gone = rig.settings(tmp_path, redis_url="unix:///nonexistent/valkey.sock")
    async with rig.running(gone) as (gateway, url), rig.client(url) as client:
        assert gateway.worker.version == 7
        ready = await client.get("/readyz")
        assert ready.status_code == 200
        assert set(ready.json()["degraded"]) == {"policy_age", "redis_unreachable"}
        assert (await client.get("/v1/models")).status_code == 200


async def test_without_redis_and_with_a_corrupt_disk_it_is_not_ready_and_says_why(
    tmp_path: Path,
) -> None:
    gone = rig.settings(tmp_path, redis_url="unix:///nonexistent/valkey.sock")
    LastKnownGood(gone.directory).write(b"rubbish")
    async with rig.running(gone) as (_, url), rig.client(url) as client:
        ready = await client.get("/readyz")
        assert ready.status_code == 503
        assert "snapshot_truncated" in ready.json()["reasons"][0]
        answer = await client.post("/v1/chat/completions", json=rig.ask())
        assert answer.json()["error"]["code"] == "not_ready"


def test_the_last_known_good_is_replaced_whole(tmp_path: Path) -> None:
    kept = LastKnownGood(tmp_path)
    assert kept.read() is None
    body = canonical_json(rig.snapshot())
    kept.write(body)
    kept.write(body * 2)
    assert kept.read() == body * 2
    assert [path.name for path in tmp_path.iterdir()] == ["last_known_good.snapshot"]
