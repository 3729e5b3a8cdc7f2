"""What the launcher was asked for, read from the environment once."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from console.launcher.errors import LauncherError

ROOT: Final = Path(__file__).resolve().parents[2]
_MAX_PORT: Final = 65_535


@dataclass(frozen=True, slots=True)
class LauncherSettings:
    """Ports are 0 where any free one will do; URLs are empty where a server is to be embedded."""

    home: Path
    console_host: str
    console_port: int
    gateway_host: str
    gateway_port: int
    pod_port: int
    database_url: str
    redis_url: str
    seed_demo: bool

    @property
    def console_url(self) -> str:
        return f"http://{_reachable(self.console_host)}:{self.console_port}"

    @property
    def gateway_url(self) -> str:
        return f"http://{_reachable(self.gateway_host)}:{self.gateway_port}"

    @property
    def pod_url(self) -> str:
        return f"http://127.0.0.1:{self.pod_port}"

    @classmethod
    def from_environment(cls) -> LauncherSettings:
        return cls(
            home=Path(os.environ.get("ACE_HOME") or ROOT / "var").expanduser().resolve(),
            console_host=os.environ.get("ACE_CONSOLE_HOST") or "127.0.0.1",
            console_port=_port("ACE_CONSOLE_PORT", 8000),
            gateway_host=os.environ.get("ACE_GATEWAY_HOST") or "127.0.0.1",
            gateway_port=_port("ACE_GATEWAY_PORT", 8080),
            pod_port=_port("ACE_POD_PORT", 0),
            database_url=os.environ.get("DATABASE_URL") or "",
            redis_url=os.environ.get("REDIS_URL") or "",
            seed_demo=(os.environ.get("ACE_SEED_DEMO") or "1").lower()
            not in {"0", "no", "false", "off"},
        )


def child_environment(settings: LauncherSettings, operator_file: Path) -> dict[str, str]:
    """The same for every process: they find each other through it, and `ace` finds them through run.json."""
    bin_dir = Path(sys.executable).parent
    return {
        **os.environ,
        "PATH": f"{bin_dir}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        "PYTHONUNBUFFERED": "1",
        "DJANGO_SETTINGS_MODULE": os.environ.get("DJANGO_SETTINGS_MODULE")
        or "console.settings.dev",
        "ACE_HOME": str(settings.home),
        "ACE_CONSOLE_HOST": settings.console_host,
        "ACE_CONSOLE_PORT": str(settings.console_port),
        "ACE_GATEWAY_HOST": settings.gateway_host,
        "ACE_GATEWAY_PORT": str(settings.gateway_port),
        "ACE_POD_PORT": str(settings.pod_port),
        "ACE_OPERATOR_FILE": os.environ.get("ACE_OPERATOR_FILE") or str(operator_file),
        "DATABASE_URL": settings.database_url,
        "REDIS_URL": settings.redis_url,
        "ACE_SEED_DEMO": "1" if settings.seed_demo else "0",
    }


def _reachable(host: str) -> str:
    """Who listens everywhere is reached on loopback."""
    if host in {"0.0.0.0", "::", ""}:  # noqa: S104 - compared, not bound
        return "127.0.0.1"
    return f"[{host}]" if ":" in host else host


def _port(variable: str, default: int) -> int:
    text = os.environ.get(variable) or str(default)
    if not text.isascii() or not text.isdigit() or int(text) > _MAX_PORT:
        raise LauncherError(f"{variable} must be a port number (0: any free one), not {text!r}")
    return int(text)
