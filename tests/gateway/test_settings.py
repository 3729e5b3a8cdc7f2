"""Which build a worker says it is."""

from __future__ import annotations

import tomllib
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from gateway import settings

ROOT = Path(__file__).parents[2]


def test_a_tree_that_is_not_installed_still_knows_its_version(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def not_installed(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(settings, "version", not_installed)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert settings._build() == project["version"]


@pytest.mark.parametrize("text", [None, "# Changelog\n"])
def test_a_tree_without_a_version_is_no_release(tmp_path: Path, text: str | None) -> None:
    changelog = tmp_path / "CHANGELOG.md"
    if text is not None:
        changelog.write_text(text)
    assert settings._version_of_tree(changelog) == "0+source"
