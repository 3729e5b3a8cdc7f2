from __future__ import annotations

from policies.contract.facts import Finding
from policies.contract.host import Host
from tests.policies.host import FakeHost


def test_the_host_of_the_tests_keeps_the_promises_of_a_host() -> None:
    host: Host = FakeHost()
    first: list[int] = host.state("one", "ep_1", list)
    assert host.state("one", "ep_1", list) is first
    assert host.state("one", "ep_2", list) is not first
    assert host.state("two", "ep_1", list) is not first
    assert 0 <= host.random() < 1
    host.report("one", Finding("code", "info", "ep_1", "Said."))
