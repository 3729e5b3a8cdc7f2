"""The services of the data plane that skills may use: `policies.contract.host.Host` made real."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any, Final, TypeVar

import msgspec

from policies.contract.facts import Finding
from telemetry import events

MAX_FINDINGS: Final = 1000
log: Final = logging.getLogger(__name__)
State = TypeVar("State")


class GatewayHost:
    """One a worker. Findings wait in a bounded queue until the controller carries them to Redis."""

    def __init__(self, failed: Callable[[str, Exception], None]) -> None:
        self._states: dict[tuple[str, str], Any] = {}
        self._dice = Random()  # noqa: S311 - jitter, not a secret
        self.findings: deque[bytes] = deque(maxlen=MAX_FINDINGS)
        self.dropped_findings = 0
        self.failed: Final = failed
        """Told of every exception of a skill."""

    def monotonic_ns(self) -> int:
        return time.monotonic_ns()

    def unix_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def random(self) -> float:
        return self._dice.random()

    def state(self, skill: str, subject: str, make: Callable[[], State]) -> State:
        key = skill, subject
        state = self._states.get(key)
        if state is None:
            # Snapshots are built in a thread: of two that make the same state at once, one wins for both.
            state = self._states.setdefault(key, make())
        found: State = state
        return found

    def report(self, skill: str, finding: Finding) -> None:
        if len(self.findings) == MAX_FINDINGS:
            self.dropped_findings += 1
        record = events.Finding(
            skill, finding.code, finding.severity, finding.subject, finding.message, self.unix_ms()
        )
        self.findings.append(msgspec.json.encode(record))
