"""A host that tests own: its clock stands still, its dice are loaded, and it can be told to fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from policies.contract.facts import Finding

State = TypeVar("State")


class HostDownError(Exception):
    """What every service of a `FailingHost` answers."""


class FakeHost:
    def __init__(self, dice: float = 0.5) -> None:
        self.now_ns = 1_000_000_000_000
        self.dice = dice
        self.findings: list[Finding] = []
        self._states: dict[tuple[str, str], Any] = {}

    def advance_ms(self, milliseconds: float) -> int:
        self.now_ns += int(milliseconds * 1_000_000)
        return self.now_ns

    def monotonic_ns(self) -> int:
        return self.now_ns

    def unix_ms(self) -> int:
        return 1_800_000_000_000 + self.now_ns // 1_000_000

    def random(self) -> float:
        return self.dice

    def state(self, skill: str, subject: str, make: Callable[[], State]) -> State:
        found: State = self._states.setdefault((skill, subject), make())
        return found

    def report(self, skill: str, finding: Finding) -> None:
        self.findings.append(finding)

    @property
    def codes(self) -> list[str]:
        return [finding.code for finding in self.findings]


class FailingHost:
    """Every call raises: what a skill does then is its declared failure direction."""

    def monotonic_ns(self) -> int:
        raise HostDownError

    def unix_ms(self) -> int:
        raise HostDownError

    def random(self) -> float:
        raise HostDownError

    def state(self, skill: str, subject: str, make: Callable[[], State]) -> State:
        raise HostDownError

    def report(self, skill: str, finding: Finding) -> None:
        raise HostDownError
