"""A compiled hot path is taken whole, for the right interpreter and the right sources, or not at all."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from gateway import native


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    return {
        "tag": native.tag(),
        "sources": native.digest(),
        "files": {"ace_probe.inner": "ace_probe/inner.so"},
    }


def enabled(folder: Path, build: dict[str, Any]) -> str:
    (folder / native.MANIFEST).write_text(json.dumps(build))
    return native.enable(folder)


def test_a_build_that_fits_is_found_before_the_sources(
    tmp_path: Path, build: dict[str, Any]
) -> None:
    assert enabled(tmp_path, build) == ""
    finder = sys.meta_path[0]
    assert isinstance(finder, native.Finder)
    spec = finder.find_spec("ace_probe.inner")
    assert spec is not None
    assert spec.origin == str(tmp_path / "ace_probe" / "inner.so")
    assert finder.find_spec("gateway.settings") is None


def test_without_a_build_nothing_changes(tmp_path: Path, build: dict[str, Any]) -> None:
    before = list(sys.meta_path)
    assert native.enable(tmp_path / "nowhere") == "not built"
    assert sys.meta_path == before


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"tag": "cpython-399-riscv"}, "built for another interpreter"),
        ({"sources": "0" * 64}, "built from other sources"),
        ({"files": {"gateway.native": "x.so"}}, "gateway.native was imported before it"),
    ],
)
def test_a_build_that_does_not_fit_is_left_alone(
    tmp_path: Path, build: dict[str, Any], change: dict[str, Any], reason: str
) -> None:
    before = list(sys.meta_path)
    assert enabled(tmp_path, build | change) == reason
    assert sys.meta_path == before


def test_a_manifest_nobody_can_read_is_no_build(tmp_path: Path, build: dict[str, Any]) -> None:
    (tmp_path / native.MANIFEST).write_text("{")
    assert native.enable(tmp_path) == "not built"
    assert enabled(tmp_path, {"tag": native.tag()}) == "not built"


def test_any_change_of_a_source_makes_another_digest(tmp_path: Path) -> None:
    for package in native.PACKAGES:
        (tmp_path / package).mkdir()
    source = tmp_path / "policies" / "rule.py"
    seen = {native.digest(tmp_path)}
    for text in ("", "A = 1\n", "A = 2\n"):
        source.write_text(text)
        seen.add(native.digest(tmp_path))
    source.rename(tmp_path / "gateway" / "rule.py")
    seen.add(native.digest(tmp_path))
    assert len(seen) == 5
