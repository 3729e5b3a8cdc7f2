from __future__ import annotations

from dataclasses import replace

import pytest

from policies.contract.facts import TenantFacts
from policies.contract.manifest import bound_by_nothing, warns_of_nothing
from policies.skills.circuit_breaker import SKILL
from policies.skills.circuit_breaker.runtime import CircuitBreaker


def test_a_runtime_is_loaded_by_its_name() -> None:
    assert SKILL.load_runtime() is CircuitBreaker


@pytest.mark.parametrize(
    "runtime", ["policies.skills.circuit_breaker.runtime:Nope", "policies.no:X"]
)
def test_a_name_that_leads_nowhere_is_an_error(runtime: str) -> None:
    with pytest.raises((AttributeError, ImportError)):
        replace(SKILL, runtime=runtime).load_runtime()


def test_a_skill_is_bound_by_no_tenant_and_warns_of_nothing_unless_it_says_so() -> None:
    fenced = TenantFacts("ten_1", ())
    assert SKILL.bound_by is bound_by_nothing
    assert not SKILL.bound_by(fenced)
    assert SKILL.warns is warns_of_nothing
    assert not SKILL.warns(None, fenced, [])
