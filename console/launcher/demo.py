"""What the seed made, kept in ACE_HOME so that a second start tells the same. Readable by the owner alone."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from console.launcher.errors import LauncherError
from console.launcher.home import write_private
from console.launcher.runfile import Login, RunFile
from console.launcher.settings import LauncherSettings


@dataclass(frozen=True, slots=True)
class Demo:
    tenant_id: str
    pool_id: str
    admin: Login
    finance: Login
    api_key: str
    model: str
    management_token: str

    @classmethod
    def read(cls, home: Path) -> Demo:
        """Raises LauncherError when the file is damaged; it is written whole or not at all."""
        try:
            fields = json.loads(_path(home).read_text(encoding="utf-8"))
            admin, finance = (Login(**fields.pop(name)) for name in ("admin", "finance"))
            return cls(admin=admin, finance=finance, **fields)
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise LauncherError(f"{_path(home)} cannot be read: {error}") from None

    @classmethod
    def read_or_none(cls, home: Path) -> Demo | None:
        return cls.read(home) if _path(home).exists() else None

    def write(self, home: Path) -> None:
        write_private(_path(home), json.dumps(asdict(self), indent=2) + "\n")

    def run_file(self, settings: LauncherSettings) -> RunFile:
        return RunFile(
            settings.console_url,
            settings.gateway_url,
            self.admin,
            self.finance,
            self.api_key,
            self.model,
            self.management_token,
        )


def bare_run_file(settings: LauncherSettings) -> RunFile:
    """Without the demo seed there is nobody to sign in as: the console shows its first-run page."""
    return RunFile(settings.console_url, settings.gateway_url)


def _path(home: Path) -> Path:
    return home / "secrets" / "demo.json"
