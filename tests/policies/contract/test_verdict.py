from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest

from policies.contract.verdict import NEXT, Verdict


def test_going_on_says_nothing_and_cannot_be_changed() -> None:
    assert Verdict("next") == NEXT
    with pytest.raises(FrozenInstanceError):
        NEXT.reason = "changed"  # type: ignore[misc]
