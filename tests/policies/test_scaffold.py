from __future__ import annotations

import ast
import shutil
from pathlib import Path

import pytest

from policies.scaffold import Draft, ScaffoldError, failing_laws, main, make_skill, with_skill

ROOT = Path(__file__).parents[2]
DRAFT = Draft("tea_break", "Tea break", "L7", "admitter")


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The part of the project that the laws of a skill look at."""
    ignore = shutil.ignore_patterns("__pycache__", "test_scaffold.py")
    for part in ("policies", "tests/policies", "tests/laws"):
        shutil.copytree(ROOT / part, tmp_path / part, ignore=ignore)
    shutil.copy(ROOT / "tests" / "__init__.py", tmp_path / "tests")
    return tmp_path


def test_a_new_skill_is_told_by_the_laws_what_it_lacks(copy: Path) -> None:
    written = {str(path.relative_to(copy)) for path in make_skill(copy, DRAFT)}
    assert "policies/skills/tea_break/runtime.py" in written
    assert "tests/policies/skills/tea_break/test_runtime.py" in written
    assert failing_laws(copy, "tea_break") == [
        "test_its_failure_direction_is_tested_with_a_host_that_fails[tea_break]",
        "test_the_generated_table_of_the_readme_is_current[tea_break]",
        "test_the_manifest_is_written_for_a_person[tea_break]",
        "test_the_pipeline_order_is_the_agreed_one",
        "test_the_readme_names_every_field_and_the_skill[tea_break]",
        "test_the_runtime_loads_by_name_and_plays_its_role[tea_break]",
        "test_the_worked_examples_are_run_by_the_tests_of_the_skill[tea_break]",
        "test_there_are_three_worked_examples_and_each_compiles[tea_break]",
    ]


def test_the_list_of_things_to_do_is_printed(
    copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tea_break", "--layer", "L7", "--role", "admitter"], copy) == 0
    said = capsys.readouterr().out
    assert "wrote policies/skills/tea_break/config.py" in said
    assert "  the runtime loads by name and plays its role\n" in said


def test_a_skill_that_exists_is_left_alone(copy: Path) -> None:
    before = (copy / "policies" / "skills" / "geo_residency" / "runtime.py").read_text()
    with pytest.raises(ScaffoldError, match="exists already"):
        make_skill(copy, Draft("geo_residency", "Geo", "L6", "observer"))
    assert (copy / "policies" / "skills" / "geo_residency" / "runtime.py").read_text() == before


@pytest.mark.parametrize("slug", ["", "Tea", "tea-break", "../tea", "a" * 41])
def test_a_name_that_is_no_slug_is_refused_and_nothing_is_written(
    slug: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([slug], tmp_path) == 1
    assert "is no slug" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_the_catalogue_stays_python_and_keeps_its_order() -> None:
    text = with_skill((ROOT / "policies" / "catalogue.py").read_text(), "tea_break")
    text = with_skill(text, "zebra_crossing")
    ast.parse(text)
    order = [line.strip() for line in text.splitlines() if line.endswith(".SKILL,")]
    assert order[-2:] == ["tea_break.SKILL,", "zebra_crossing.SKILL,"]
    assert order[0] == "geo_residency.SKILL,"
    assert text.count("    tea_break,\n") == 1
