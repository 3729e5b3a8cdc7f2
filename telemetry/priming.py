"""Tells Redis what a budget window has cost so far, when Redis lost it or never knew.

The lease script asks on `ace:budget:prime`; the answer goes into the window's hash as `base_microusd`.
Whom a budget binds is known above; `hooks.budget_lookup` asks there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, cast

import redis

from telemetry.hooks import BudgetSubject, hooks
from telemetry.rows import from_ms
from telemetry.selectors import billed_since

PRIME_LIST: Final = "ace:budget:prime"
"""As `policies.schema.wire.BUDGET_PRIME_LIST`; a test compares both names."""

BUDGET_KEY: Final = "ace:budget:{budget_id}:{window_start_ms}"
"""As `policies.schema.wire.BUDGET_KEY`."""

_BATCH: Final = 200
_LATEST_MS: Final = 4_102_444_800_000

# Only a window that still stands, and only once: a second answer would count what was spent since.
_ANSWER: Final = """
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
local fresh = redis.call('HSETNX', KEYS[1], 'base_microusd', ARGV[1])
if fresh == 1 then
  for i = 2, #ARGV, 2 do redis.call('HSET', KEYS[1], 'm:' .. ARGV[i], ARGV[i + 1]) end
end
return fresh
"""

logger = logging.getLogger(__name__)


class Priming:
    def __init__(self, client: redis.Redis, marks: Callable[[], Mapping[str, int]] = dict) -> None:
        """`marks`: up to which sequence the ledger has each spool; a slot counts anew only what lies above."""
        self._redis, self._marks = client, marks

    def answer(self) -> int:
        """Answer everything asked so far; how many windows. Raises redis.RedisError, django.db.Error.

        What could not be answered is asked again by the script, 300 ms later.
        """
        asked = cast("list[bytes] | None", self._redis.lpop(PRIME_LIST, _BATCH))
        windows = set(_windows(asked or ()))
        for budget_id, start_ms in windows:
            self._answer(budget_id, start_ms)
        return len(windows)

    def _answer(self, budget_id: str, start_ms: int) -> None:
        subject = hooks.budget_lookup(budget_id)
        if subject is None:
            logger.warning("asked for the spending of an unknown budget: %s", budget_id)
            return
        before = self._marks()
        spent = spent_in_window(subject, start_ms)
        key = BUDGET_KEY.format(budget_id=budget_id, window_start_ms=start_ms)
        marks = [str(each) for pair in before.items() for each in pair]
        self._redis.eval(_ANSWER, 1, key, str(spent), *marks)


def spent_in_window(subject: BudgetSubject, start_ms: int) -> int:
    """Micro-dollars in the ledger since the window began."""
    start: Any = from_ms(start_ms)
    return billed_since(start, **{f"{subject.scope}_id": subject.id})


def _windows(asked: Iterable[bytes]) -> Iterable[tuple[str, int]]:
    for item in asked:
        budget_id, _, start = item.decode(errors="replace").rpartition(":")
        if budget_id and start.isdecimal() and int(start) < _LATEST_MS:
            yield budget_id, int(start)
        else:
            logger.warning("not a budget window: %r", item[:100])
