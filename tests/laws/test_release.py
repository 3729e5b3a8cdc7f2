"""One version, in one place."""

from __future__ import annotations

import re
import tomllib

from tests.laws.sources import ROOT


def test_changelog_and_package_name_the_same_version() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    changes = (ROOT / "CHANGELOG.md").read_text()
    heading = re.search(r"^## (\d+\.\d+\.\d+)", changes, re.MULTILINE)
    assert heading is not None
    assert heading.group(1) == declared
