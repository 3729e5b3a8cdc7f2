"""What a skill says of itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

from policies.contract.config import SkillConfig
from policies.contract.facts import EndpointFacts, Finding, TenantFacts
from policies.contract.roles import Role


def bound_by_nothing(_facts: TenantFacts) -> bool:
    return False


def warns_of_nothing(
    _plan: Any, _facts: TenantFacts, _endpoints: Sequence[EndpointFacts]
) -> Sequence[Finding]:
    return ()


@dataclass(frozen=True, slots=True)
class Skill:
    """The manifest of one skill; `SKILL` in the folder's `__init__.py`, listed once in
    `policies.catalogue`.
    """

    slug: str
    title: str
    summary: str
    """One sentence for the studio's list."""
    layer: Literal["L1", "L2", "L3", "L4", "L5", "L6", "L7"]
    role: Role
    config: type[SkillConfig]
    compile: Callable[[Any, TenantFacts], Any]
    """Pure: config and tenant facts to a frozen, slotted plan."""
    runtime: str
    """Dotted path `module:Class`, imported only inside the gateway, so that the console never loads
    a model runtime.
    """
    on_error: Literal["open", "closed"]
    """What an exception of the runtime means: the request goes on without the skill, or it is
    refused.
    """
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    deadline_ms: int = 5
    bound_by: Callable[[TenantFacts], bool] = bound_by_nothing
    """Whether facts of the tenant alone put the skill in force, whatever its mode: see
    `policies.merge.stages`.
    """
    warns: Callable[[Any, TenantFacts, Sequence[EndpointFacts]], Sequence[Finding]] = (
        warns_of_nothing
    )
    """Pure: what an administrator should read before publishing this plan for this tenant, given
    the endpoints of one model. A warning never blocks.
    """

    def load_runtime(self) -> type[Any]:
        module, _, name = self.runtime.partition(":")
        loaded: type[Any] = getattr(import_module(module), name)
        return loaded
