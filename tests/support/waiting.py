"""Waiting for what happens elsewhere, without a sleep that is either too short or too long."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def until(
    condition: Callable[[], T], *, within_s: float, what: str = "", every_s: float = 0.02
) -> T:
    """The first truthy value of `condition`. Fails the test with `what` and the last value after `within_s`."""
    deadline = time.monotonic() + within_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(
                f"not within {within_s:g} s: {what or condition} (last: {value!r})"
            )
        time.sleep(every_s)
