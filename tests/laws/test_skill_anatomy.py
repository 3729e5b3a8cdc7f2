"""Laws every skill obeys. A new skill passes them without a change to this file."""

from __future__ import annotations

import ast
import contextlib
import io
from pathlib import Path
from typing import Any

import pytest
import yaml
from cogapp import Cog  # type: ignore[import-untyped]

from policies.catalogue import CATALOGUE
from policies.contract.facts import TenantFacts
from policies.contract.manifest import Skill
from policies.contract.roles import ROLE_PROTOCOLS
from policies.merge import field_rules
from policies.schema.base import Merge
from tests.laws.sources import ROOT
from tests.policies.examples import examples
from tests.policies.host import FailingHost, FakeHost

SKILLS = ROOT / "policies" / "skills"
TESTS = ROOT / "tests" / "policies" / "skills"
ANATOMY = {"__init__.py", "config.py", "compile.py", "runtime.py", "README.md", "examples.yaml"}
TEST_ANATOMY = {"test_config.py", "test_compile.py", "test_runtime.py"}
TENANT = TenantFacts("ten_law", ("a-1",))

each_skill = pytest.mark.parametrize("skill", CATALOGUE, ids=lambda each: each.slug)


def present(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if path.is_file()} if folder.exists() else set()


def test_every_folder_is_in_the_catalogue() -> None:
    folders = {path.parent.name for path in SKILLS.glob("*/__init__.py")}
    assert folders == {skill.slug for skill in CATALOGUE}


@each_skill
def test_the_folder_holds_the_whole_skill(skill: Skill) -> None:
    assert ANATOMY - present(SKILLS / skill.slug) == set()
    assert TEST_ANATOMY - present(TESTS / skill.slug) == set()


@each_skill
def test_the_manifest_is_written_for_a_person(skill: Skill) -> None:
    assert len(skill.title) >= 5
    assert skill.summary.endswith(".")
    assert "TODO" not in skill.title + skill.summary


@each_skill
def test_every_field_is_described(skill: Skill) -> None:
    for name, info in skill.config.model_fields.items():
        assert 10 <= len(info.description or "") <= 500, name
        assert "TODO" not in (info.description or ""), name


@each_skill
def test_defaults_are_valid_and_survive_json(skill: Skill) -> None:
    config = skill.config()
    assert config.mode == "off"
    assert skill.config.model_validate_json(config.model_dump_json()) == config


@each_skill
def test_a_union_or_subset_is_a_list(skill: Skill) -> None:
    for name, rule in field_rules(skill.config).items():
        merge: Merge = rule.merge
        lists = merge.mode == "union" or (merge.mode, merge.stricter) == ("tighten", "subset")
        if lists:
            assert rule.combine(("a",), ("a",)) == ("a",), name
            assert "array" in str(rule.adapter.json_schema()), name


@each_skill
def test_the_readme_names_every_field_and_the_skill(skill: Skill) -> None:
    text = (SKILLS / skill.slug / "README.md").read_text()
    assert f"`{skill.slug}` · {skill.layer} · {skill.role} · fails {skill.on_error}" in text
    assert "TODO" not in text
    for name in skill.config.model_fields:
        assert f"`{name}`" in text, name


@each_skill
def test_the_generated_table_of_the_readme_is_current(skill: Skill) -> None:
    readme = SKILLS / skill.slug / "README.md"
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        status = Cog().main(["cog", "-I", str(ROOT), "-c", "--check", str(readme)])
    assert status == 0, f"make docs writes it anew: {said.getvalue()}"


@each_skill
def test_the_runtime_loads_by_name_and_plays_its_role(skill: Skill) -> None:
    runtime = skill.load_runtime()
    assert runtime.__module__ == f"policies.skills.{skill.slug}.runtime"
    plan = skill.compile(skill.config(), TENANT)
    assert isinstance(runtime(plan, FakeHost()), ROLE_PROTOCOLS[skill.role])


@each_skill
def test_making_a_runtime_asks_nothing_of_the_host(skill: Skill) -> None:
    """It is built while traffic runs; only using it may need the host."""
    skill.load_runtime()(skill.compile(skill.config(), TENANT), FailingHost())


@each_skill
def test_a_plan_is_frozen_slotted_and_comparable(skill: Skill) -> None:
    plan: Any = skill.compile(skill.config(), TENANT)
    again = skill.compile(skill.config(), TENANT)
    assert plan == again
    assert hash(plan) == hash(again)
    assert hasattr(type(plan), "__slots__")
    assert type(plan).__dataclass_params__.frozen


@each_skill
def test_there_are_three_worked_examples_and_each_compiles(skill: Skill) -> None:
    found = examples(skill.slug)
    assert len(found) >= 3
    assert len({example.title for example in found}) == len(found)
    for example in found:
        assert len(example.why) >= 10, example.title
        assert example.expect, example.title
        hash(example.plan)


@each_skill
def test_the_worked_examples_are_run_by_the_tests_of_the_skill(skill: Skill) -> None:
    text = (TESTS / skill.slug / "test_runtime.py").read_text()
    assert f'examples("{skill.slug}")' in text


@each_skill
def test_its_failure_direction_is_tested_with_a_host_that_fails(skill: Skill) -> None:
    tree = ast.parse((TESTS / skill.slug / "test_runtime.py").read_text())
    prefix = f"test_it_fails_{skill.on_error}"
    bodies = [
        ast.unparse(node)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name.startswith(prefix)
    ]
    assert any("FailingHost(" in body and "assert" in body for body in bodies), prefix


@each_skill
def test_settings_of_the_examples_are_only_what_differs_from_the_defaults(skill: Skill) -> None:
    """An example that repeats a default teaches a reader to set what need not be set."""
    defaults = skill.config().model_dump(mode="json")
    raw = yaml.safe_load((SKILLS / skill.slug / "examples.yaml").read_text())
    repeated = {
        (each["title"], name)
        for each in raw
        for name, value in each["settings"].items()
        if defaults[name] == value
    }
    assert repeated == set()
