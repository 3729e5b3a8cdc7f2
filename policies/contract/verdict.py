"""What a skill that may stop a request answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal


@dataclass(frozen=True, slots=True)
class Verdict:
    """`next`: go on. `respond`: the skill has the answer. `refuse`: stable snake_case reason for
    the caller.

    A refusal is a value, not an exception: it is an expected result of policy, counted and
    explained.
    """

    kind: Literal["next", "respond", "refuse"]
    reason: str = ""
    body: bytes = b""


NEXT: Final = Verdict("next")
