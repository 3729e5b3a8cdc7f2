"""What publishing would change, object by object and field by field. Secrets are never shown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from policies.schema.snapshot import Snapshot

SECRET_FIELDS: Final = frozenset({"credential", "digests"})
HIDDEN: Final = "(hidden)"

Objects = dict[str, dict[str, Any]]
"""Place of an object -> dotted field name -> JSON value."""


@dataclass(frozen=True, slots=True)
class Change:
    kind: Literal["added", "removed", "changed"]
    object: str
    """Place of the object: `tenants/ten_1`, `endpoints/ep_1`, `documents/global` …"""
    field: str
    """Dotted name; empty when the whole object came or went."""
    before: Any = None
    after: Any = None


def diff_snapshots(before: Snapshot | None, after: Snapshot) -> tuple[Change, ...]:
    """Changes sorted by object and field; None: nothing was published before.

    Version, revision and time are no changes: they differ always.
    """
    old = {} if before is None else _objects(before)
    new = _objects(after)
    return tuple(
        change for place in sorted(old.keys() | new.keys()) for change in _object(place, old, new)
    )


def _object(place: str, old: Objects, new: Objects) -> Iterator[Change]:
    if place not in old:
        yield Change("added", place, "", after=_shown_object(new[place]))
    elif place not in new:
        yield Change("removed", place, "", before=_shown_object(old[place]))
    else:
        yield from _fields(place, old[place], new[place])


def _fields(place: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Change]:
    for name in sorted(old.keys() | new.keys()):
        if name not in old:
            yield Change("added", place, name, after=_shown(name, new[name]))
        elif name not in new:
            yield Change("removed", place, name, before=_shown(name, old[name]))
        elif old[name] != new[name]:
            before, after = _shown(name, old[name]), _shown(name, new[name])
            yield Change("changed", place, name, before, after)


def _shown_object(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _shown(name, value) for name, value in fields.items()}


def _shown(name: str, value: Any) -> Any:
    return HIDDEN if name in SECRET_FIELDS and value else value


def _objects(snapshot: Snapshot) -> Objects:
    """Every object under its own place, so that it is the same one wherever it stands in a list."""
    found: Objects = {}
    document = snapshot.model_dump(mode="json")
    for pool in document["pools"]:
        for endpoint in pool.pop("endpoints"):
            found[f"endpoints/{endpoint['id']}"] = _flat({**endpoint, "pool": pool["id"]})
    for place in ("tenants", "keys", "pools", "budgets"):
        for each in document[place]:
            found[f"{place}/{each['id']}"] = _flat(each)
    for each in document["documents"]:
        found[f"documents/{each['scope']}"] = _flat(each["skills"])
    return found


def _flat(fields: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Dotted names. A field that is not set is absent: setting it is an addition."""
    flat: dict[str, Any] = {}
    for name, value in fields.items():
        if isinstance(value, dict):
            flat.update(_flat(value, f"{prefix}{name}."))
        elif value is not None and (prefix or name != "id"):
            flat[prefix + name] = value
    return flat
