"""Money never overdrawn: a simulated cluster over the real script, with crashes, lost, doubled and late messages.

Each slot is a real `LeaseBook` over a real table; between slots and Redis stands a network that may drop a call,
drop its answer, deliver a call again later, or lose Redis' memory. At every step what is spent and held together is
within the limit; when all requests ended and everything was returned, no hold is left.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import redis
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from gateway.limits import scripts
from gateway.limits.keeper import LeaseKeeper
from gateway.limits.leases import BudgetTerms, Lease, LeaseBook, Purse
from gateway.limits.table import LeaseTable
from policies.schema import wire

LIMIT = 1000
TERMS = (
    BudgetTerms("bud_key", "Key", LIMIT, "total", "UTC", "hard"),
    BudgetTerms("bud_ten", "Tenant", LIMIT + 300, "total", "UTC", "hard"),
)
SLOTS = 3


class Slot:
    def __init__(self, name: str, directory: Path, client: redis.Redis) -> None:
        self.name, self.directory, self.client = name, directory, client
        self.in_flight: list[tuple[tuple[Lease, ...], int]] = []
        self.boot()

    def boot(self) -> None:
        self.table = LeaseTable(self.directory / f"{self.name}.bin")
        self.book = LeaseBook(self.table)
        self.purse = Purse(self.book, TERMS)
        self.purse.current(1)
        sync: Any = _AsyncLooking(self.client)
        self.keeper = LeaseKeeper(sync, self.book, self.name, lambda: 0)

    def crash(self) -> int:
        """kill -9: the table stays, holds die, recovery charges each open request; what it charged."""
        charged = 0
        lost, self.in_flight = self.in_flight, []
        self.table.close()
        self.boot()
        for _, hold in lost:
            self.book.charge_recovered([terms.id for terms in TERMS], 1, hold)
            charged += hold
        return charged


class _AsyncLooking:
    """The keeper only registers its script here; the model makes the calls itself."""

    def __init__(self, client: redis.Redis) -> None:
        self._client = client

    def register_script(self, text: str) -> str:
        return text


class Cluster(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.client = redis.Redis.from_url(os.environ["REDIS_URL"])
        self.client.flushdb()
        self.script = self.client.register_script(scripts.LEASE)
        self._home = tempfile.TemporaryDirectory()
        self.slots = [Slot(f"s{n}", Path(self._home.name), self.client) for n in range(SLOTS)]
        self.spent = 0
        self.late: list[tuple[list[str], list[int | str]]] = []
        self._settle_in()

    def _settle_in(self) -> None:
        """Redis has been up for longer than the quarantine, and the ledger has answered."""
        self.script(keys=[wire.BUDGET_PRIME_LIST, scripts.RUN_SINCE_KEY], args=["x", 0])
        for terms in TERMS:
            self.client.hset(f"ace:budget:{terms.id}:0", "base_microusd", 0)
            run = self.client.hget(scripts.RUN_SINCE_KEY, "run")
            assert isinstance(run, bytes)
            self.client.hset(f"ace:budget:{terms.id}:0", "run", run)

    def teardown(self) -> None:
        for slot in self.slots:
            for leases, hold in slot.in_flight:
                self._end(leases, hold, 0)
            slot.in_flight.clear()
            for lease in slot.purse.leases:
                lease.give_back()
            self._call(slot, slot.purse.leases, 0, 0)
        self._check()
        for slot in self.slots:
            assert all(lease.held == 0 and lease.free <= 0 for lease in slot.purse.leases)
        for terms in TERMS:
            state: Any = self.client.hgetall(f"ace:budget:{terms.id}:0")
            granted = sum(int(v) for k, v in state.items() if k.startswith(b"g:"))
            assert granted == self.spent, "everything granted and not spent came back"
        for slot in self.slots:
            slot.table.close()
        self.client.close()
        self._home.cleanup()

    # -- the network -------------------------------------------------------------------------------------------------

    def _call(
        self, slot: Slot, leases: Sequence[Lease], hold: int, want: int, fate: str = "ok"
    ) -> None:
        sent = [slot.keeper._prepare(lease) for lease in leases]
        keys, args = slot.keeper._call(leases, hold, want)
        args[1] = 0
        if fate == "never_arrives":
            return
        if fate == "arrives_late":
            self.late.append((keys, args))
            return
        answer: Any = self.script(keys=keys, args=args)
        if fate == "twice":
            answer = self.script(keys=keys, args=args)
        if fate == "answer_lost":
            return
        width = scripts.FIELDS_PER_LEVEL
        for n, (lease, op) in enumerate(zip(leases, sent, strict=True)):
            slot.keeper._apply(lease, op, answer[n * width : (n + 1) * width])

    # -- what may happen ---------------------------------------------------------------------------------------------

    fates = st.sampled_from(
        ("ok", "ok", "ok", "twice", "answer_lost", "never_arrives", "arrives_late")
    )
    numbers = st.integers(0, SLOTS - 1)

    @rule(number=numbers, hold=st.integers(1, 300), fate=fates)
    def request(self, number: int, hold: int, fate: str) -> None:
        slot = self.slots[number]
        slot.purse.current(1)
        if not slot.purse.can_pay(hold):
            self._call(slot, slot.purse.leases, hold, hold, fate)
        if slot.purse.can_pay(hold):
            slot.in_flight.append((slot.purse.take(hold, 1), hold))

    @rule(number=numbers, share=st.floats(0, 1))
    def finish(self, number: int, share: float) -> None:
        slot = self.slots[number]
        if slot.in_flight:
            leases, hold = slot.in_flight.pop(0)
            self._end(leases, hold, int(hold * share))

    def _end(self, leases: tuple[Lease, ...], hold: int, billed: int) -> None:
        for lease in leases:
            lease.settle(hold, billed)
        self.spent += billed

    @rule(number=numbers, fate=fates, returning=st.booleans())
    def state(self, number: int, fate: str, returning: bool) -> None:
        slot = self.slots[number]
        for lease in slot.purse.leases:
            if returning:
                lease.give_back()
            self._call(slot, (lease,), 0, 0, fate)

    @rule(number=numbers)
    def crash(self, number: int) -> None:
        self.spent += self.slots[number].crash()

    @precondition(lambda self: self.late)
    @rule(data=st.data())
    def deliver_late(self, data: st.DataObject) -> None:
        at = data.draw(st.integers(0, len(self.late) - 1))
        keys, args = self.late.pop(at)
        self.script(keys=keys, args=args)

    @rule()
    def redis_forgets(self) -> None:
        """Everything is gone; every slot states what it holds before the ledger has answered again."""
        self.client.flushdb()
        self.late.clear()
        for slot in self.slots:
            for lease in slot.purse.leases:
                lease.ledgered = 0
            self._call(slot, slot.purse.leases, 0, 0)
        self._settle_in()

    # -- what must hold ----------------------------------------------------------------------------------------------

    @invariant()
    def never_overdrawn(self) -> None:
        self._check()

    def _check(self) -> None:
        held = sum(hold for slot in self.slots for _, hold in slot.in_flight)
        assert self.spent + held <= LIMIT

    @invariant()
    def each_slot_spends_its_own(self) -> None:
        for slot in self.slots:
            for lease in slot.purse.leases:
                assert lease.free == lease.granted - lease.used - lease.held
                assert lease.free >= 0


Cluster.TestCase.settings = settings(
    max_examples=30,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.integration
class TestCluster(Cluster.TestCase):  # type: ignore[misc,valid-type]
    pass
