from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field

from policies.catalogue import CATALOGUE
from policies.contract.config import SkillConfig
from policies.contract.facts import TenantFacts
from policies.merge import (
    DEFAULT_ORIGIN,
    FieldRule,
    PolicyIndex,
    effective,
    field_rules,
    in_ramp,
    parse_document,
    stages,
)
from policies.schema.base import Merge
from policies.schema.snapshot import PolicyDocument
from policies.skills.geo_residency.compile import GeoPlan

Ladder = Literal["allow", "mask", "block"]


class EveryMode(SkillConfig):
    nearest: int = Field(default=0, description="Override.")
    at_most: Annotated[int | None, Merge("tighten", "lower")] = Field(None, description="Lower.")
    at_least: Annotated[int | None, Merge("tighten", "higher")] = Field(None, description="Higher.")
    ladder: Annotated[Ladder, Merge("tighten", "higher")] = Field("allow", description="Choice.")
    among: Annotated[tuple[str, ...] | None, Merge("tighten", "subset")] = Field(
        None, description="Subset."
    )
    all_of: Annotated[tuple[str, ...], Merge("union")] = Field((), description="Union.")
    first: Annotated[int, Merge("locked")] = Field(0, description="Locked.")


RULES = field_rules(EveryMode)
numbers = st.integers(-5, 5)
words = st.lists(st.sampled_from("abcd"), unique=True).map(tuple)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "nearest": numbers,
    "at_most": st.none() | numbers,
    "at_least": st.none() | numbers,
    "ladder": st.sampled_from(("allow", "mask", "block")),
    "among": st.none() | words,
    "all_of": words,
    "first": numbers,
}
TIGHTENED = ("at_most", "at_least", "ladder", "among")
any_rule = st.sampled_from(sorted(VALUES))


def same(rule: FieldRule, one: Any, other: Any) -> bool:
    """Sets are compared as sets: their order is not promised."""
    if isinstance(one, tuple) and isinstance(other, tuple):
        return set(one) == set(other)
    return bool(one == other)


@given(st.data(), any_rule)
def test_it_does_not_matter_in_which_groups_scopes_are_combined(
    data: st.DataObject, name: str
) -> None:
    rule = RULES[name]
    a, b, c = (data.draw(VALUES[name]) for _ in range(3))
    left = rule.combine(rule.combine(a, b), c)
    assert same(rule, left, rule.combine(a, rule.combine(b, c)))


@given(st.data(), any_rule)
def test_saying_the_same_twice_changes_nothing(data: st.DataObject, name: str) -> None:
    value = data.draw(VALUES[name])
    assert RULES[name].combine(value, value) == value
    assert not RULES[name].loosens(value, value)


def is_at_least_as_strict(name: str, one: Any, than: Any) -> bool:
    """Written apart from the code under test."""
    if than is None:
        return True
    if one is None:
        return False
    if name == "among":
        return set(one) <= set(than)
    if name == "ladder":
        order = ["allow", "mask", "block"]
        return order.index(one) >= order.index(than)
    return bool(one <= than if name == "at_most" else one >= than)


@given(st.data(), st.sampled_from(TIGHTENED))
def test_a_tightened_field_is_never_looser_than_any_scope_asks(
    data: st.DataObject, name: str
) -> None:
    wider, narrower = data.draw(VALUES[name]), data.draw(VALUES[name])
    combined = RULES[name].combine(wider, narrower)
    assert is_at_least_as_strict(name, combined, wider)
    assert is_at_least_as_strict(name, combined, narrower)


@given(st.data(), st.sampled_from(TIGHTENED))
def test_loosening_is_noticed_exactly_where_it_happens(data: st.DataObject, name: str) -> None:
    wider, narrower = data.draw(VALUES[name]), data.draw(VALUES[name])
    looser = not is_at_least_as_strict(name, narrower, wider)
    assert RULES[name].loosens(wider, narrower) is looser


def test_unlimited_zero_and_inherited_are_three_things() -> None:
    rule = RULES["at_most"]
    assert rule.combine(None, 0) == 0
    assert rule.combine(0, None) == 0
    assert rule.loosens(0, None)
    assert not rule.loosens(None, 0)


def test_a_locked_field_belongs_to_the_widest_scope_that_sets_it() -> None:
    assert RULES["first"].combine(1, 2) == 1
    assert RULES["first"].loosens(1, 2)


def test_a_union_keeps_what_every_scope_names() -> None:
    assert RULES["all_of"].combine(("a", "b"), ("b", "c")) == ("a", "b", "c")


# Documents -------------------------------------------------------------------------------------


def document(scope: str, **skills: dict[str, Any]) -> PolicyDocument:
    return PolicyDocument(scope=scope, skills=skills)


def test_the_nearest_scope_wins_and_is_named() -> None:
    index = PolicyIndex.of(
        [
            document("global", circuit_breaker={"mode": "enforce", "min_calls": 10}),
            document("tenants/ten_1", circuit_breaker={"min_calls": 20}),
            document("keys/key_1", circuit_breaker={"min_calls": 30}),
            document("models/m", circuit_breaker={"min_calls": 40}),
        ]
    )
    found = effective(index, "ten_1", "key_1", "m")["circuit_breaker"]
    assert (found.config.model_dump()["min_calls"], found.mode) == (40, "enforce")
    assert found.origins["min_calls"] == ("models/m",)
    assert found.origins["mode"] == ("global",)
    assert found.origins["window_s"] == DEFAULT_ORIGIN


def test_a_scope_that_is_not_asked_for_does_not_speak() -> None:
    index = PolicyIndex.of([document("tenants/ten_1", circuit_breaker={"min_calls": 7})])
    assert effective(index, "ten_2", None, None)["circuit_breaker"].origins["min_calls"] == (
        DEFAULT_ORIGIN
    )


def test_a_model_may_have_slashes_and_colons_in_its_name() -> None:
    index = PolicyIndex.of([document("models/org/m:7b", circuit_breaker={"mode": "enforce"})])
    assert effective(index, None, None, "org/m:7b")["circuit_breaker"].mode == "enforce"


def test_skills_come_in_pipeline_order() -> None:
    assert list(effective(PolicyIndex({}), None, None, None)) == [s.slug for s in CATALOGUE]


def test_equal_places_share_one_configuration() -> None:
    index = PolicyIndex.of([document("global", circuit_breaker={"mode": "enforce"})])
    one = effective(index, "ten_1", "key_1", "m")["circuit_breaker"]
    other = effective(index, "ten_2", "key_2", "n")["circuit_breaker"]
    assert one.config is other.config


@pytest.mark.parametrize(
    ("skills", "code", "pointer"),
    [
        ({"time_travel": {}}, "unknown_skill", "/skills/time_travel"),
        ({"circuit_breaker": {"colour": 1}}, "unknown_field", "/skills/circuit_breaker/colour"),
        (
            {"circuit_breaker": {"min_calls": 0}},
            "invalid_value",
            "/skills/circuit_breaker/min_calls",
        ),
        (
            {"circuit_breaker": {"min_calls": "9"}},
            "invalid_value",
            "/skills/circuit_breaker/min_calls",
        ),
        (
            {"geo_residency": {"allowed_regions": ["a", "EU!"]}},
            "invalid_value",
            "/skills/geo_residency/allowed_regions/1",
        ),
        (
            {"circuit_breaker": {"min_calls": {1, 2}}},
            "invalid_value",
            "/skills/circuit_breaker/min_calls",
        ),
    ],
)
def test_what_is_wrong_with_a_document_has_a_code_and_a_place(
    skills: dict[str, Any], code: str, pointer: str
) -> None:
    _, problems = parse_document(PolicyDocument(scope="global", skills=skills))
    assert [(problem.code, problem.pointer) for problem in problems] == [(code, pointer)]
    with pytest.raises(ValueError, match=pointer):
        PolicyIndex.of([PolicyDocument(scope="global", skills=skills)])


# Ramp ------------------------------------------------------------------------------------------

KEYS = [f"key_{number}" for number in range(2_000)]


@given(st.integers(0, 100))
def test_a_ramp_takes_about_its_share_of_keys(percent: int) -> None:
    share = sum(in_ramp("circuit_breaker", key, percent) for key in KEYS) / len(KEYS)
    assert abs(share * 100 - percent) < 4


@given(st.integers(0, 99), st.sampled_from(KEYS))
def test_raising_a_ramp_only_adds_keys(percent: int, key: str) -> None:
    if in_ramp("circuit_breaker", key, percent):
        assert in_ramp("circuit_breaker", key, percent + 1)


def test_skills_do_not_try_everything_on_the_same_keys() -> None:
    first = {key for key in KEYS if in_ramp("circuit_breaker", key, 10)}
    other = {key for key in KEYS if in_ramp("hardware_telemetry", key, 10)}
    assert len(first & other) < len(first) / 2


def test_a_key_outside_the_ramp_sees_the_skill_off() -> None:
    index = PolicyIndex.of(
        [document("global", circuit_breaker={"mode": "enforce", "ramp_percent": 0})]
    )
    found = effective(index, None, "key_1", None)["circuit_breaker"]
    assert (found.config.mode, found.mode) == ("enforce", "off")


# Stages ----------------------------------------------------------------------------------------

FENCED = TenantFacts("ten_1", ("a-1",))


def geo_stages(settings: dict[str, Any], tenant: TenantFacts) -> list[tuple[str, GeoPlan]]:
    index = PolicyIndex.of([document("global", geo_residency=settings)])
    found = stages(index, tenant, "key_1", "m")
    return [(stage.mode, stage.plan) for stage in found if stage.skill.slug == "geo_residency"]


def plan(*regions: str) -> GeoPlan:
    return GeoPlan(frozenset(regions))


@pytest.mark.parametrize("settings", [{}, {"mode": "off"}, {"mode": "enforce", "ramp_percent": 0}])
def test_a_tenants_fence_holds_though_the_policy_is_off(settings: dict[str, Any]) -> None:
    assert geo_stages(settings, FENCED) == [("enforce", plan("a-1"))]


@pytest.mark.parametrize("mode", ["observe", "shadow"])
def test_a_policy_on_trial_stands_beside_the_tenants_fence(mode: str) -> None:
    settings = {"mode": mode, "allowed_regions": ["b-1", "a-1"]}
    assert geo_stages(settings, FENCED) == [("enforce", plan("a-1")), (mode, plan("a-1"))]
    settings = {"mode": mode, "allowed_regions": ["b-1"]}
    assert geo_stages(settings, FENCED) == [("enforce", plan("a-1")), (mode, plan())]


def test_an_enforced_policy_and_the_fence_are_one_stage() -> None:
    settings = {"mode": "enforce", "allowed_regions": ["b-1", "a-1"]}
    assert geo_stages(settings, FENCED) == [("enforce", plan("a-1"))]


def test_a_tenant_without_a_fence_has_only_the_policy() -> None:
    settings = {"mode": "enforce", "allowed_regions": ["b-1"]}
    assert geo_stages(settings, TenantFacts("ten_2")) == [("enforce", plan("b-1"))]
    assert geo_stages({}, TenantFacts("ten_2")) == []
