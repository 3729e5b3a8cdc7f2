"""The import contracts of pyproject.toml hold."""

from __future__ import annotations

import subprocess
import sys

from tests.laws.sources import ROOT


def test_every_import_contract_is_kept() -> None:
    command = [
        sys.executable,
        "-c",
        "from importlinter.cli import lint_imports_command as run; run()",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
