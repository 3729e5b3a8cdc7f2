"""Requests and tokens a minute by GCRA, and requests at once, as this worker's share of a limit.

GCRA keeps one integer: `tat_ns`, the theoretical arrival time of the next request. A worker's share is the limit
divided by the live workers at the last heartbeat, so that the sum over workers is the limit in the long run; a limit
below the number of workers lets each worker start with one.
"""

from __future__ import annotations

from typing import Final

from gateway.protocols.errors import Refused
from policies.schema.snapshot import RateLimits

MINUTE_NS: Final = 60_000_000_000
NS_PER_MS: Final = 1_000_000
FULL_RETRY_MS: Final = 250
"""Advice when too many requests run at once: nobody knows when one ends."""


class Share:
    """Live workers of the installation; 1 until a heartbeat says otherwise."""

    __slots__ = ("workers",)

    def __init__(self) -> None:
        self.workers = 1


class KeyUse:
    """What one key does on this worker; outlives snapshots."""

    __slots__ = ("in_flight", "request_tat_ns", "token_tat_ns")

    def __init__(self) -> None:
        self.in_flight = self.request_tat_ns = self.token_tat_ns = 0


class Limiter:
    """The limits one snapshot puts on one key, over the key's lasting use."""

    __slots__ = ("_concurrency", "_requests", "_share", "_tokens", "unlimited", "use")

    def __init__(self, limits: RateLimits, use: KeyUse, share: Share) -> None:
        self._requests, self._tokens = limits.requests_per_minute, limits.tokens_per_minute
        self._concurrency = limits.concurrency
        self._share, self.use = share, use
        self.unlimited = (
            self._requests is None and self._tokens is None and self._concurrency is None
        )

    @property
    def requests_per_minute(self) -> int | None:
        return self._requests

    def enter(self, now_ns: int, tokens: int) -> int:
        """Count a request in, or raise Refused `rate_limit_exceeded` and count nothing.

        `tokens` is an estimate; returns the nanoseconds of token budget it took, which `leave` corrects.
        """
        use = self.use
        if self.unlimited:
            use.in_flight += 1
            return 0
        workers = self._share.workers
        self._check_concurrency(workers)
        request_tat = self._next(use.request_tat_ns, now_ns, self._requests, 1, "requests")
        cost = 0
        if self._tokens is not None:
            token_tat = self._next(use.token_tat_ns, now_ns, self._tokens, tokens, "tokens")
            cost = token_tat - max(use.token_tat_ns, now_ns)
            use.token_tat_ns = token_tat
        use.request_tat_ns = request_tat
        use.in_flight += 1
        return cost

    def leave(self, cost: int, tokens: int) -> None:
        """The request is over; `tokens` is what it really took."""
        self.use.in_flight -= 1
        if self._tokens:
            real = MINUTE_NS * self._share.workers * tokens // self._tokens
            self.use.token_tat_ns += real - cost

    def remaining(self, now_ns: int) -> int:
        """Requests that may follow at once."""
        if not self._requests:
            return 0
        emission = MINUTE_NS * self._share.workers // self._requests
        ahead = max(0, self.use.request_tat_ns - now_ns)
        return max(0, (MINUTE_NS - ahead) // emission)

    def _check_concurrency(self, workers: int) -> None:
        limit = self._concurrency
        if limit is None:
            return
        share = max(1, limit // workers) if limit else 0
        if self.use.in_flight >= share:
            raise _refused("concurrent requests", limit, FULL_RETRY_MS)

    def _next(self, tat_ns: int, now_ns: int, limit: int | None, amount: int, what: str) -> int:
        """The arrival time after this request; a whole minute's worth may come at once."""
        if limit is None:
            return tat_ns
        if limit == 0:
            raise _refused(f"{what} per minute", 0, MINUTE_NS // NS_PER_MS)
        cost = MINUTE_NS * self._share.workers * amount // limit
        # One request that is larger than the whole limit may pass when nothing else has.
        following = max(tat_ns, now_ns) + cost
        excess = following - now_ns - MINUTE_NS
        if excess > 0 and tat_ns > now_ns:
            raise _refused(f"{what} per minute", limit, max(1, excess // NS_PER_MS))
        return following


def _refused(what: str, limit: int, retry_ms: int) -> Refused:
    return Refused(
        "rate_limit_exceeded",
        f"This API key is limited to {limit} {what}.",
        retry_after_ms=retry_ms,
        details={"dimension": what, "limit": limit, "scope": "key"},
    )
