"""Fails when what is generated from the models differs from what is committed: migrations and the OpenAPI document.

`--write` writes the OpenAPI document anew; migrations are made by hand (`manage.py makemigrations`), so that somebody
reads them.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OPENAPI = ROOT / "templates" / "docs" / "openapi.yaml"


def main(arguments: list[str]) -> int:
    if "--write" in arguments:
        OPENAPI.write_text(openapi())
        return 0
    # The settings of the suite name a server that is not there; nothing here needs one.
    if manage("makemigrations", "--check", "--dry-run").returncode != 0:
        print(
            "drift: models changed without a migration: manage.py makemigrations", file=sys.stderr
        )
        return 1
    if manage("check").returncode != 0:
        return 1
    if OPENAPI.exists() and OPENAPI.read_text() != openapi():
        print(
            f"drift: {OPENAPI.relative_to(ROOT)} is not what the code says: make docs",
            file=sys.stderr,
        )
        return 1
    return 0


def openapi() -> str:
    return manage("spectacular", "--validate", capture=True).stdout


def manage(*arguments: str, capture: bool = False) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-W", "ignore::RuntimeWarning", str(ROOT / "manage.py"), *arguments],
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "console.settings.test"},
        cwd=ROOT,
        stdout=subprocess.PIPE if capture else None,
        text=True,
        check=False,
    )
    if capture and done.returncode != 0:
        raise SystemExit(f"drift: manage.py {' '.join(arguments)} failed")
    return done


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
