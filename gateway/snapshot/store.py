"""The one reference to what requests are judged by. Readers take it once, at entry, and keep what they took."""

from __future__ import annotations

from typing import Generic, TypeVar

Plan = TypeVar("Plan")


class SnapshotStore(Generic[Plan]):
    """Written by the watcher only, in the event loop; replaced whole, so no reader can see half of a change."""

    __slots__ = ("current",)

    def __init__(self) -> None:
        self.current: Plan | None = None
