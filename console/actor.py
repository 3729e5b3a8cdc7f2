"""Who does something: a person at the console, a management token, or the product itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Role = Literal["admin", "finance", "developer", "system"]


@dataclass(frozen=True, slots=True)
class Actor:
    name: str
    """`user:alice`, `token:tok_…` or `system`; stays readable in the audit log when the account is gone."""
    role: Role
    request_id: str = ""
    ip: str = ""
    tenant_ids: frozenset[str] = frozenset()
    """Tenants a developer may see; the other roles see all."""


SYSTEM: Final = Actor("system", "system")
