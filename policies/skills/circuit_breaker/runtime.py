"""The state machine of one endpoint's circuit: closed, open, half_open.

Closed: calls are counted in a ring of one-second buckets. The circuit opens when, over the window,
at least `min_calls` ended and `failure_percent` failed or `slow_percent` were slow, or when
`consecutive_failures` failed in a row.
Open: nothing is sent for `base_open` x 2^reopened, at most `max_open`, with 20 % jitter.
Half open: at most `max_probes` requests are under way. One failed or slow probe opens the circuit
again, for twice as long; `successes_to_close` good ones close it.

A 429 is no failure: it pauses the endpoint for what it asks, in whatever state the circuit is.
A neutral end (the caller's mistake, the caller leaving) counts nowhere and gives back its place.
"""

from __future__ import annotations

from typing import Final, Literal

from policies.contract.facts import Finding, Outcome
from policies.contract.host import Host
from policies.skills.circuit_breaker.compile import NS_PER_MS, BreakerPlan

SLUG: Final = "circuit_breaker"

Phase = Literal["closed", "open", "half_open"]

_RING_S: Final = 128
"""Buckets kept: the longest window, rounded up."""
_NS_PER_S: Final = 1_000_000_000
_MIN_COOLDOWN_NS: Final = _NS_PER_S
_JITTER: Final = 0.2
_NEVER_S: Final = -(1 << 40)
_CREDENTIAL_REPORT_NS: Final = 60 * _NS_PER_S


class Circuit:
    """All that is remembered of one endpoint. It outlives snapshots; thresholds do not live here."""

    __slots__ = (
        "calls",
        "consecutive",
        "credential_reported_ns",
        "earlier",
        "earlier_key",
        "failures",
        "half_open_since_ns",
        "open_until_ns",
        "paused_until_ns",
        "phase",
        "probes",
        "reopened",
        "slows",
        "stamps",
        "successes",
        "undecided",
    )

    def __init__(self) -> None:
        self.phase: Phase = "closed"
        self.paused_until_ns = 0
        self.open_until_ns = 0
        self.half_open_since_ns = 0
        self.credential_reported_ns = -_CREDENTIAL_REPORT_NS
        self.reopened = 0
        self.successes = 0
        self.probes: list[int] = []
        """Start of each probe that still holds its place, in monotonic nanoseconds."""
        self.forget()

    def forget(self) -> None:
        """Empty the window: an endpoint that has earned its way back starts without a record."""
        self.consecutive = 0
        self.undecided = False
        self.earlier = (0, 0, 0)
        self.earlier_key = (_NEVER_S, 0)
        self.stamps = [_NEVER_S] * _RING_S
        self.calls = [0] * _RING_S
        self.failures = [0] * _RING_S
        self.slows = [0] * _RING_S

    def totals(self, second: int, window_s: int) -> tuple[int, int, int]:
        """Calls, failures and slow calls of the `window_s` seconds up to `second`, in which the call
        to be judged was just counted.

        Buckets before this second no longer change, so their sum is made once a second.
        """
        if self.earlier_key != (second, window_s):
            self.earlier_key = (second, window_s)
            self.earlier = self._sum_before(second, second - window_s)
        calls, failures, slows = self.earlier
        slot = second % _RING_S
        return (
            calls + self.calls[slot],
            failures + self.failures[slot],
            slows + self.slows[slot],
        )

    def _sum_before(self, second: int, oldest: int) -> tuple[int, int, int]:
        slots = [i for i, stamp in enumerate(self.stamps) if oldest < stamp < second]
        return (
            sum(self.calls[i] for i in slots),
            sum(self.failures[i] for i in slots),
            sum(self.slows[i] for i in slots),
        )


class CircuitBreaker:
    """One a plan; the circuits are shared by all plans and snapshots through the host.

    Summing the window costs microseconds, so it is done only after a bad call, and after a good one
    only while too few calls are known to judge a bad one by.
    """

    __slots__ = ("_circuits", "_host", "_plan")

    def __init__(self, plan: BreakerPlan, host: Host) -> None:
        self._plan = plan
        self._host = host
        self._circuits: dict[str, Circuit] = {}

    def allows(self, endpoint_id: str, now_ns: int, /) -> str:
        circuit = self._circuits.get(endpoint_id) or self._circuit(endpoint_id)
        if now_ns < circuit.paused_until_ns:
            return "endpoint_cooling_down"
        if circuit.phase == "closed":
            return ""
        return self._admit_probe(endpoint_id, circuit, now_ns)

    def on_outcome(self, endpoint_id: str, outcome: Outcome, now_ns: int, /) -> None:
        circuit = self._circuits.get(endpoint_id) or self._circuit(endpoint_id)
        kind = outcome.kind
        if circuit.phase == "closed" and kind == "success":
            self._count_success(endpoint_id, circuit, now_ns)
            return
        if kind == "throttle":
            self._pause(circuit, outcome, now_ns)
        elif kind == "credential":
            self._report_credential(endpoint_id, circuit, now_ns)
        if circuit.phase == "closed":
            self._count_bad(endpoint_id, circuit, kind, now_ns)
        elif circuit.phase == "half_open":
            self._end_probe(endpoint_id, circuit, outcome, now_ns)

    def _circuit(self, endpoint_id: str) -> Circuit:
        circuit = self._circuits[endpoint_id] = self._host.state(SLUG, endpoint_id, Circuit)
        return circuit

    # Closed ------------------------------------------------------------------------------------

    def _count_success(self, endpoint_id: str, circuit: Circuit, now_ns: int) -> None:
        second = now_ns // _NS_PER_S
        slot = second % _RING_S
        if circuit.stamps[slot] != second:
            _restart(circuit, slot, second)
        circuit.calls[slot] += 1
        circuit.consecutive = 0
        if circuit.undecided:
            self._judge(endpoint_id, circuit, now_ns)

    def _count_bad(self, endpoint_id: str, circuit: Circuit, kind: str, now_ns: int) -> None:
        if kind not in ("failure", "slow"):
            return
        second = now_ns // _NS_PER_S
        slot = second % _RING_S
        if circuit.stamps[slot] != second:
            _restart(circuit, slot, second)
        circuit.calls[slot] += 1
        if kind == "failure":
            circuit.failures[slot] += 1
            circuit.consecutive += 1
        else:
            circuit.slows[slot] += 1
            circuit.consecutive = 0
        self._judge(endpoint_id, circuit, now_ns)

    def _judge(self, endpoint_id: str, circuit: Circuit, now_ns: int) -> None:
        plan = self._plan
        if circuit.consecutive >= plan.consecutive_failures:
            self._open(endpoint_id, circuit, now_ns, "failures in a row")
            return
        calls, failures, slows = circuit.totals(now_ns // _NS_PER_S, plan.window_s)
        circuit.undecided = calls < plan.min_calls and failures + slows > 0
        if calls < plan.min_calls:
            return
        if failures * 100 >= plan.failure_percent * calls:
            self._open(endpoint_id, circuit, now_ns, f"{failures} of {calls} calls failed")
        elif slows * 100 >= plan.slow_percent * calls:
            self._open(endpoint_id, circuit, now_ns, f"{slows} of {calls} calls were slow")

    # Open and half open ------------------------------------------------------------------------

    def _open(self, endpoint_id: str, circuit: Circuit, now_ns: int, why: str) -> None:
        plan = self._plan
        rest = min(plan.max_open_ns, plan.base_open_ns << min(circuit.reopened, 20))
        circuit.open_until_ns = now_ns + min(plan.max_open_ns, self._jittered(rest))
        circuit.phase = "open"
        circuit.probes.clear()
        message = f"Open for {(circuit.open_until_ns - now_ns) // NS_PER_MS} ms: {why}."
        self._host.report(SLUG, Finding("circuit_opened", "warning", endpoint_id, message))

    def _admit_probe(self, endpoint_id: str, circuit: Circuit, now_ns: int) -> str:
        if circuit.phase == "open":
            if now_ns < circuit.open_until_ns:
                return "circuit_open"
            self._half_open(endpoint_id, circuit, now_ns)
        expired_ns = now_ns - self._plan.probe_deadline_ns
        circuit.probes = [start for start in circuit.probes if start > expired_ns]
        if len(circuit.probes) >= self._plan.max_probes:
            return "circuit_half_open"
        circuit.probes.append(now_ns)
        return ""

    def _half_open(self, endpoint_id: str, circuit: Circuit, now_ns: int) -> None:
        circuit.phase = "half_open"
        circuit.half_open_since_ns = now_ns
        circuit.successes = 0
        finding = Finding("circuit_half_open", "info", endpoint_id, "Probing.")
        self._host.report(SLUG, finding)

    def _end_probe(self, endpoint_id: str, circuit: Circuit, outcome: Outcome, now_ns: int) -> None:
        started_ns = now_ns - outcome.latency_us * 1_000
        if started_ns < circuit.half_open_since_ns:
            return  # sent before the circuit opened: tells nothing of the endpoint now
        if circuit.probes and now_ns - started_ns < self._plan.probe_deadline_ns:
            circuit.probes.remove(min(circuit.probes, key=lambda start: abs(start - started_ns)))
        if outcome.kind in ("failure", "slow"):
            circuit.reopened += 1
            self._open(endpoint_id, circuit, now_ns, f"a probe ended as {outcome.kind}")
        elif outcome.kind == "success":
            circuit.successes += 1
            if circuit.successes >= self._plan.successes_to_close:
                self._close(endpoint_id, circuit)

    def _close(self, endpoint_id: str, circuit: Circuit) -> None:
        circuit.phase = "closed"
        circuit.reopened = 0
        circuit.probes.clear()
        circuit.forget()
        finding = Finding("circuit_closed", "info", endpoint_id, "Probes ended well.")
        self._host.report(SLUG, finding)

    # Answers that are neither good nor bad -----------------------------------------------------

    def _pause(self, circuit: Circuit, outcome: Outcome, now_ns: int) -> None:
        asked = outcome.retry_after_ms * NS_PER_MS
        pause = max(_MIN_COOLDOWN_NS, min(asked, self._plan.max_cooldown_ns))
        spread = int(pause * _JITTER * self._host.random())
        circuit.paused_until_ns = max(circuit.paused_until_ns, now_ns + pause + spread)

    def _report_credential(self, endpoint_id: str, circuit: Circuit, now_ns: int) -> None:
        if now_ns - circuit.credential_reported_ns < _CREDENTIAL_REPORT_NS:
            return
        circuit.credential_reported_ns = now_ns
        message = "The endpoint refuses the provider key; a person must renew it."
        self._host.report(SLUG, Finding("credential_refused", "critical", endpoint_id, message))

    def _jittered(self, nanoseconds: int) -> int:
        return int(nanoseconds * (1 - _JITTER + 2 * _JITTER * self._host.random()))


def _restart(circuit: Circuit, slot: int, second: int) -> None:
    circuit.stamps[slot] = second
    circuit.calls[slot] = circuit.failures[slot] = circuit.slows[slot] = 0
