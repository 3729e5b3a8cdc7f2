"""How `ace` finds the installation: from its options, else the environment, else run.json in ACE_HOME."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from console.launcher import runfile
from console.launcher.errors import LauncherError
from console.launcher.settings import LauncherSettings


@dataclass(frozen=True, slots=True)
class Access:
    console_url: str
    gateway_url: str
    token: str
    """Management token; empty: none was found, so that only the public addresses can be asked."""


def find_access(console: str | None, token: str | None) -> Access:
    """Raises LauncherError when nothing says where the console is."""
    run = _run_file(LauncherSettings.from_environment().home)
    console_url = console or os.environ.get("ACE_CONSOLE_URL") or run.get("console")
    if not console_url:
        raise LauncherError("no installation is running here: `make run`, or give --console URL")
    return Access(
        str(console_url).rstrip("/"),
        str(os.environ.get("ACE_GATEWAY_URL") or run.get("gateway") or "").rstrip("/"),
        # A token of one installation must not be shown to another one.
        token or os.environ.get("ACE_MANAGEMENT_TOKEN") or _token_of(run, str(console_url)),
    )


def _token_of(run: Mapping[str, Any], console_url: str) -> str:
    return str(run.get("management_token", "")) if run.get("console") == console_url else ""


def _run_file(home: Path) -> dict[str, Any]:
    try:
        return runfile.read(home)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise LauncherError(f"{runfile.path(home)} cannot be read: {error}") from None
