"""The newest sample of each node, and what is worth remembering of each GPU. Pure."""

from __future__ import annotations

from typing import Final

from telemetry.nvml.codec import NodeSample
from telemetry.state import GpuLive, NodeLive

NODE_GONE_MS: Final = 600_000


class Fleet:
    """The newest sample of each node, and what is worth remembering of each GPU."""

    SPAN_S: Final = 10
    SPANS: Final = 30

    def __init__(self) -> None:
        self._nodes: dict[str, NodeSample] = {}
        self._spans: dict[str, dict[int, tuple[float, int]]] = {}
        self._xids: dict[str, tuple[int, int]] = {}

    def add(self, sample: NodeSample) -> None:
        last = self._nodes.get(sample.node)
        if last is not None and last.at_ms > sample.at_ms:
            return
        self._nodes[sample.node] = sample
        for gpu in sample.gpus:
            if gpu.xid_errors:
                self._xids[gpu.uuid] = (gpu.xid_errors[-1], sample.at_ms)
            if (busy := gpu.readings.get("gpu_util")) is not None:
                spans = self._spans.setdefault(gpu.uuid, {})
                at = sample.at_ms // 1000 // self.SPAN_S
                total, count = spans.get(at, (0.0, 0))
                spans[at] = (total + busy, count + 1)

    def nodes(self, now_ms: int) -> tuple[NodeLive, ...]:
        """Nodes heard of in the last ten minutes."""
        for name in [n for n, s in self._nodes.items() if now_ms - s.at_ms > NODE_GONE_MS]:
            del self._nodes[name]
        return tuple(
            NodeLive(s.node, s.at_ms, s.state, s.reason, s.driver, s.interval_ms)
            for _, s in sorted(self._nodes.items())
        )

    def gpus(self, now_ms: int) -> tuple[GpuLive, ...]:
        found = [
            GpuLive(
                *(gpu.uuid, gpu.name, sample.node, sample.at_ms, gpu.state, gpu.reason),
                *(gpu.readings, gpu.unsupported, self._utilisation(gpu.uuid, now_ms)),
                *self._xids.get(gpu.uuid, (0, 0)),
            )
            for _, sample in sorted(self._nodes.items())
            for gpu in sorted(sample.gpus, key=lambda gpu: gpu.index)
        ]
        shown = {gpu.uuid for gpu in found}
        for uuid in self._spans.keys() - shown:
            del self._spans[uuid]
        return tuple(found)

    def _utilisation(self, uuid: str, now_ms: int) -> tuple[float | None, ...]:
        spans = self._spans.get(uuid, {})
        end = now_ms // 1000 // self.SPAN_S
        for at in [at for at in spans if at <= end - self.SPANS]:
            del spans[at]
        return tuple(
            round(spans[at][0] / spans[at][1], 1) if at in spans else None
            for at in range(end - self.SPANS + 1, end + 1)
        )
