"""Laws of the pipeline as a whole."""

from __future__ import annotations

import subprocess
import sys

from policies.catalogue import CATALOGUE
from policies.compiler import PolicyIndex, effective
from tests.laws.sources import ROOT

PIPELINE = [
    "geo_residency",
    "circuit_breaker",
    "hardware_telemetry",
]
"""Golden: the order is a safety property. Change it on purpose, with the reason in the commit."""


def test_the_pipeline_order_is_the_agreed_one() -> None:
    assert [skill.slug for skill in CATALOGUE] == PIPELINE


def test_the_slug_is_the_one_name_of_a_skill() -> None:
    for skill in CATALOGUE:
        assert skill.compile.__module__ == f"policies.skills.{skill.slug}.compile"
        assert skill.config.__module__ == f"policies.skills.{skill.slug}.config"
        assert skill.runtime.startswith(f"policies.skills.{skill.slug}.runtime:")


def test_what_a_skill_reads_was_written_by_an_earlier_one() -> None:
    written: set[str] = set()
    for skill in CATALOGUE:
        assert set(skill.reads) <= written, skill.slug
        written |= set(skill.writes)


def test_importing_the_catalogue_loads_no_runtime() -> None:
    probe = (
        "import sys, policies.catalogue, policies.compiler, policies.explain, policies.diff;"
        "print([name for name in sys.modules if name.endswith('.runtime')"
        " and name.startswith('policies.')])"
    )
    loaded = subprocess.check_output([sys.executable, "-c", probe], cwd=ROOT, text=True)
    assert loaded.strip() == "[]"


def test_with_no_document_every_skill_is_off() -> None:
    found = effective(PolicyIndex({}), "ten_1", "key_1", "m")
    assert {each.mode for each in found.values()} == {"off"}
