"""The README says nothing that is not so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from console.launcher.runfile import RunFile

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()
MAKEFILE = (ROOT / "Makefile").read_text()


def test_it_names_exactly_two_set_up_commands() -> None:
    block = README.split("```sh")[1].split("```")[0]
    commands = [line.split("#")[0].strip() for line in block.strip().splitlines()]
    assert commands == ["make run", "make test"]


@pytest.mark.parametrize("target", sorted(set(re.findall(r"`?make ([a-z-]+)", README)) - {"are"}))
def test_each_make_target_exists(target: str) -> None:
    assert re.search(rf"^{target}:", MAKEFILE, re.MULTILINE)


@pytest.mark.parametrize("variable", sorted(set(re.findall(r"`([A-Z]+_[A-Z_]+)`", README))))
def test_each_variable_is_read_somewhere(variable: str) -> None:
    sources = [*ROOT.glob("console/**/*.py"), *ROOT.glob("gateway/*.py")]
    assert any(f'"{variable}"' in path.read_text() for path in sources)


@pytest.mark.parametrize("link", sorted(set(re.findall(r"\]\((?!http)([^)]+)\)", README))))
def test_each_link_leads_somewhere(link: str) -> None:
    assert (ROOT / link).exists()


def test_what_it_reads_from_the_run_file_is_there() -> None:
    for name in re.findall(r'run\.json"\)\)\["(\w+)"\]', README):
        assert name in RunFile.__dataclass_fields__


def test_the_way_to_the_first_request_is_less_than_a_screen() -> None:
    section = README.split("## From clone")[1].split("\n## ")[0]
    assert len(section.splitlines()) <= 40
