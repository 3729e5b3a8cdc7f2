"""run.json: where everything listens and how to get in. Written when all is ready, gone when it is not."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from console.launcher.home import write_private


@dataclass(frozen=True, slots=True)
class Login:
    username: str
    password: str


@dataclass(frozen=True, slots=True)
class RunFile:
    """Scripts and checks rely on these names. The demo fields are absent without the demo seed."""

    console: str
    gateway: str
    admin: Login | None = None
    finance: Login | None = None
    api_key: str | None = None
    model: str | None = None
    management_token: str | None = None

    def write(self, home: Path) -> None:
        fields = {name: value for name, value in asdict(self).items() if value is not None}
        write_private(path(home), json.dumps(fields, indent=2) + "\n")


def path(home: Path) -> Path:
    return home / "run.json"


def remove(home: Path) -> None:
    path(home).unlink(missing_ok=True)


def read(home: Path) -> dict[str, Any]:
    """The fields of a running installation. Raises FileNotFoundError when none is running."""
    document = json.loads(path(home).read_text(encoding="utf-8"))
    assert isinstance(document, dict)
    return document
