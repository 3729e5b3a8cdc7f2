"""From an envelope to something that can be swapped in, or a reason why not. Runs in a thread."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Generic, TypeVar

from policies.schema.sealing import SealError, unseal
from policies.schema.snapshot import Snapshot

Plan = TypeVar("Plan")
Build = Callable[[Snapshot, str], Plan]
MAX_REASON = 300


@dataclass(frozen=True, slots=True)
class Verified(Generic[Plan]):
    """`plan` None: the envelope was refused for `reason`."""

    version: int
    plan: Plan | None
    reason: str
    compile_ms: float


def verify(envelope: bytes, secret: bytes, build: Build[Plan]) -> Verified[Plan]:
    """Never raises: whatever is wrong with an envelope is a reason, and the old plan stays."""
    began = perf_counter()
    version = 0
    try:
        snapshot, digest = unseal(envelope, secret)
        version = snapshot.version
        plan = build(snapshot, digest)
    except SealError as error:
        return Verified(version, None, str(error)[:MAX_REASON], _since(began))
    except Exception as error:  # noqa: BLE001 - a snapshot that breaks the compiler must not break the worker
        reason = f"{_code(error)}: {error}"
        return Verified(version, None, reason[:MAX_REASON], _since(began))
    return Verified(version, plan, "", _since(began))


def _code(error: Exception) -> str:
    return getattr(error, "code", None) or f"plan_{type(error).__name__.lower()}"


def _since(began: float) -> float:
    return (perf_counter() - began) * 1000
