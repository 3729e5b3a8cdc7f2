"""Base types every policy document is built from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict


class PolicyModel(BaseModel):
    """A frozen, strict document: an unknown key is an error, not a typo that is ignored.

    Load from JSON with `model_validate_json`: strict mode refuses a Python list where a tuple is
    declared.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


@dataclass(frozen=True, slots=True)
class Ui:
    """How the policy studio draws one field; the gateway ignores it."""

    group: str = "General"
    widget: str | None = None
    unit: str | None = None


@dataclass(frozen=True, slots=True)
class Merge:
    """How a child scope combines with its parent. A field without one is overridden by the nearest
    scope.

    `tighten`: the child may only be stricter; `stricter` names the direction. `union`: both add up.
    `locked`: the first scope that sets the field decides.
    """

    mode: Literal["override", "tighten", "union", "locked"] = "override"
    stricter: Literal["lower", "higher", "subset"] = "lower"
