"""Runs the skills that look at the fleet and not at a request. One worker of an installation's node does it: slot 0.

NVML samples come from the agents through Redis; observers turn them into findings; the hardware_telemetry settings go
back to the agents.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final

import msgspec
from redis.exceptions import RedisError

from gateway.host import GatewayHost
from gateway.pipeline.plan import RuntimePlan
from gateway.snapshot.store import SnapshotStore
from policies.contract.facts import GpuFacts
from policies.schema import wire
from telemetry.events import FINDING_STREAM, SAMPLE_STREAM
from telemetry.nvml import codec
from telemetry.nvml.settings import AgentSettings

if TYPE_CHECKING:
    from redis.asyncio import Redis

FINDINGS_KEPT: Final = 1000
BLOCK_MS: Final = 1000
BATCH: Final = 100
BACKOFF_S: Final = 1.0
SETTINGS_SKILL: Final = "hardware_telemetry"
log: Final = logging.getLogger(__name__)


class Controller:
    def __init__(self, redis: Redis, store: SnapshotStore[RuntimePlan], host: GatewayHost) -> None:
        self._redis, self._store, self._host = redis, store, host
        self._last_id: bytes | str = "$"
        self._told: bytes | None = None

    async def run(self) -> None:
        """Slot 0 only: samples in, settings out."""
        while True:
            try:
                await self.tell_agents()
                await self.read_samples()
            except (RedisError, OSError) as error:
                self._told = None
                log.debug("fleet out of reach", extra={"reason": str(error)})
                await asyncio.sleep(BACKOFF_S)

    async def read_samples(self) -> None:
        answer: Any = await self._redis.xread({SAMPLE_STREAM: self._last_id}, BATCH, BLOCK_MS)
        for _, entries in answer or ():
            for entry_id, fields in entries:
                self._last_id = entry_id
                self.observe(fields.get(b"e", b""))

    def observe(self, raw: bytes) -> None:
        """Show one node's sample to every enabled observer."""
        try:
            sample = codec.decode(raw)
        except msgspec.MsgspecError:
            log.warning("a sample of an unknown form was skipped")
            return
        runtime = self._store.current
        if runtime is None:
            return
        for gpu in sample.gpus:
            facts = gpu_facts(sample, gpu)
            for stage, _ in runtime.observers:
                try:
                    findings = stage.runtime.observe(facts)
                except Exception as error:  # noqa: BLE001 - one skill's fault is not the controller's
                    stage.failed(stage.slug, error)
                    continue
                for finding in findings:
                    self._host.report(stage.slug, finding)

    async def tell_agents(self) -> None:
        """What the published settings ask of the agents, written when it changes."""
        runtime = self._store.current
        if runtime is None:
            return
        raw = msgspec.json.encode(agent_settings(runtime))
        if raw != self._told:
            await self._redis.set(wire.AGENT_SETTINGS_KEY, raw)
            self._told = raw

    async def carry_findings(self) -> None:
        """Every slot: findings of its skills go to the stream the console reads."""
        while True:
            await asyncio.sleep(BACKOFF_S)
            findings = self._host.findings
            try:
                while findings:
                    await self._redis.xadd(
                        FINDING_STREAM, {"e": findings[0]}, maxlen=FINDINGS_KEPT, approximate=True
                    )
                    findings.popleft()
            except (RedisError, OSError) as error:
                log.debug("findings wait", extra={"reason": str(error)})


def gpu_facts(sample: codec.NodeSample, gpu: codec.GpuSample) -> GpuFacts:
    return GpuFacts(
        uuid=gpu.uuid,
        node=sample.node,
        name=gpu.name,
        readings=gpu.readings,
        unsupported=gpu.unsupported,
        xid_errors=gpu.xid_errors,
        at_ms=sample.at_ms,
    )


def agent_settings(runtime: RuntimePlan) -> AgentSettings:
    for stage, config in runtime.observers:
        if stage.slug == SETTINGS_SKILL:
            fields = tuple(config.fields)
            return AgentSettings(enabled=True, interval_ms=config.interval_ms, fields=fields)
    return AgentSettings(enabled=False)
