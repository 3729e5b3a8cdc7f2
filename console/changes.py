"""Inventory says that it changed; the studio, which stands above it, listens and publishes a new snapshot.

A signal, because the inventory apps must not import the studio that reads them. It is sent inside the transaction of
the change and its receiver runs there too: when the snapshot does not compile, the change itself is rolled back.
"""

from __future__ import annotations

from typing import Any, Final

from django.dispatch import Signal

from console.actor import Actor

_inventory_changed: Final = Signal()
connect: Final = _inventory_changed.connect


def announce(actor: Actor, reason: str) -> None:
    """Call once at the end of a service that changed a tenant, key, pool, price or budget."""
    results: list[tuple[Any, Any]] = _inventory_changed.send(
        sender=None, actor=actor, reason=reason
    )
    if not results:
        raise RuntimeError("Nobody listens to inventory changes: console.studio is not installed.")
