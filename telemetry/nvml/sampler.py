"""Takes samples of one node, and outlives whatever the driver does: absent, reloaded, a GPU lost."""

from __future__ import annotations

import threading
from collections import defaultdict
from typing import Final

from msgspec import structs

from telemetry.clock import Clock
from telemetry.nvml import library
from telemetry.nvml.codec import GpuSample, NodeSample, NodeState
from telemetry.nvml.library import (
    DriverFailedError,
    DriverMissingError,
    ErrorEvents,
    Gpu,
    GpuLostError,
)
from telemetry.nvml.settings import AgentSettings

SLOW_EVERY: Final = 10
RETRY_S: Final = 10.0
"""How long a missing driver or a lost GPU is left alone before it is looked for again."""
EVENT_WAIT_MS: Final = 500


class Sampler:
    """`sample` is called by one thread; the driver's errors arrive on another, which sets `alarm`."""

    def __init__(self, node: str, clock: Clock) -> None:
        self._node, self._clock = node, clock
        self.alarm: Final = threading.Event()
        self._driver = ""
        self._gpus: tuple[Gpu, ...] = ()
        self._lost: dict[str, GpuSample] = {}
        self._state: NodeState = "no_driver"
        self._reason = "The driver has not been asked yet"
        self._look_at = 0.0
        self._turn = 0
        self._kept: dict[str, library.Readings] = {}
        self._fields: tuple[str, ...] = ()
        self._watch: _Watch | None = None

    def sample(self, settings: AgentSettings) -> NodeSample:
        """Where everything stands now. Never raises: what is wrong is in the sample."""
        if not settings.enabled:
            self.close()
            return self._node_sample("off", "Switched off by the hardware_telemetry policy")
        if settings.fields != self._fields:
            self.close()
            self._fields = settings.fields
        if self._due():
            self._open()
        if self._state != "ok":
            return self._node_sample(self._state, self._reason)
        slow = self._turn % SLOW_EVERY == 0
        self._turn += 1
        xids = self._watch.take() if self._watch else {}
        gpus = tuple(self._read(gpu, xids.get(gpu.uuid, ()), slow=slow) for gpu in self._gpus)
        gpus += self._fallen()
        self._check_watch()
        return self._node_sample("ok", "", gpus, settings.interval_ms)

    def close(self) -> None:
        """Let the driver go; the next sample opens it again."""
        if self._watch is not None:
            self._watch.close()
            self._watch = None
        if self._state == "ok":
            library.close_driver()
        self._state, self._look_at = "no_driver", 0.0
        self._gpus, self._turn = (), 0
        self._kept.clear()

    def _fallen(self) -> tuple[GpuSample, ...]:
        """GPUs the driver does not even count any more. They stay on show until they come back."""
        counted = {gpu.uuid for gpu in self._gpus}
        return tuple(sample for uuid, sample in self._lost.items() if uuid not in counted)

    def _due(self) -> bool:
        troubled = self._state != "ok" or self._lost
        return bool(troubled) and self._clock.monotonic_s() >= self._look_at

    def _open(self) -> None:
        self.close()
        self._look_at = self._clock.monotonic_s() + RETRY_S
        try:
            self._driver = library.open_driver()
            self._state = "ok"
            self._gpus = library.find_gpus(self._fields)
        except DriverMissingError as error:
            self._fail("no_driver", str(error))
        except DriverFailedError as error:
            self._fail("driver_error", str(error))
        else:
            counted = {gpu.uuid for gpu in self._gpus}
            self._lost = {u: sample for u, sample in self._lost.items() if u not in counted}
            self._watch = _Watch.start(self._gpus, self.alarm)

    def _fail(self, state: NodeState, reason: str) -> None:
        if self._state == "ok":
            library.close_driver()
        self._state, self._reason, self._driver = state, reason, ""

    def _read(self, gpu: Gpu, xids: tuple[int, ...], *, slow: bool) -> GpuSample:
        """Slow readings keep their last value in between: they are counters and limits."""
        if gpu.uuid in self._lost:
            return structs.replace(self._lost[gpu.uuid], xid_errors=xids)
        try:
            readings = library.read_gpu(gpu, slow=slow)
        except GpuLostError as error:
            self._lost[gpu.uuid] = GpuSample(gpu.uuid, gpu.index, gpu.name, "lost", str(error))
            self._look_at = self._clock.monotonic_s() + RETRY_S
            return structs.replace(self._lost[gpu.uuid], xid_errors=xids)
        if slow:
            slow_names = {name for group in gpu.groups if group.slow for name in group.names}
            self._kept[gpu.uuid] = {k: v for k, v in readings.items() if k in slow_names}
        unsupported = gpu.unsupported + self._blind(gpu)
        readings = {**self._kept.get(gpu.uuid, {}), **readings}
        return GpuSample(
            gpu.uuid,
            gpu.index,
            gpu.name,
            readings={k: v for k, v in readings.items() if not self._fields or k in self._fields},
            unsupported=unsupported,
            xid_errors=xids,
        )

    def _blind(self, gpu: Gpu) -> tuple[str, ...]:
        asked = not self._fields or library.XID in self._fields
        seen = self._watch is not None and gpu.uuid in self._watch.watched
        return (library.XID,) if asked and not seen else ()

    def _check_watch(self) -> None:
        """The thread of errors ends only when the driver went away under it: open everything anew."""
        if self._watch is not None and self._watch.failed:
            self.close()
            self._fail("driver_error", "The NVIDIA driver went away; it is looked for again")

    def _node_sample(
        self,
        state: NodeState,
        reason: str,
        gpus: tuple[GpuSample, ...] = (),
        interval_ms: int = 1000,
    ) -> NodeSample:
        now = self._clock.unix_ms()
        return NodeSample(self._node, now, state, reason, self._driver, interval_ms, gpus)


class _Watch:
    """The thread that waits for driver errors; it holds them until the next sample takes them."""

    def __init__(self, errors: ErrorEvents, alarm: threading.Event) -> None:
        self._errors, self._alarm = errors, alarm
        self._closing = self.failed = False
        self._lock = threading.Lock()
        self._seen: dict[str, list[int]] = defaultdict(list)
        self.watched: Final = frozenset(errors.watched)
        self._thread = threading.Thread(target=self._run, name="nvml-errors", daemon=True)
        self._thread.start()

    @classmethod
    def start(cls, gpus: tuple[Gpu, ...], alarm: threading.Event) -> _Watch | None:
        """None when no GPU here can tell its errors."""
        try:
            errors = ErrorEvents(gpus)
        except DriverFailedError:
            return None
        if errors.watched:
            return cls(errors, alarm)
        errors.close()
        return None

    def take(self) -> dict[str, tuple[int, ...]]:
        with self._lock:
            taken = {uuid: tuple(codes) for uuid, codes in self._seen.items()}
            self._seen.clear()
        return taken

    def close(self) -> None:
        self._closing = True
        self._thread.join(timeout=2 * EVENT_WAIT_MS / 1000)
        self._errors.close()

    def _run(self) -> None:
        while not self._closing:
            try:
                seen = self._errors.wait(EVENT_WAIT_MS)
            except DriverFailedError:
                self.failed = True
                self._alarm.set()
                return
            if seen is not None:
                with self._lock:
                    self._seen[seen[0]].append(seen[1])
                self._alarm.set()
