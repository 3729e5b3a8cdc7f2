"""What the gateway lends to a skill's runtime. Tests lend fakes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from policies.contract.facts import Finding

State = TypeVar("State")


class Host(Protocol):
    """Services of the data plane. Nothing here waits."""

    def monotonic_ns(self) -> int:
        """A clock that never goes back; for deadlines and windows."""
        ...

    def unix_ms(self) -> int: ...

    def random(self) -> float:
        """Uniform in [0, 1)."""
        ...

    def state(self, skill: str, subject: str, make: Callable[[], State]) -> State:
        """State that outlives a snapshot, such as a breaker's window: one object a (skill,
        subject), made once.
        """
        ...

    def report(self, skill: str, finding: Finding) -> None:
        """Show a finding in the console; never blocks, drops with a counter."""
        ...
