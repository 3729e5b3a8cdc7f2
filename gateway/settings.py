"""What the environment says, read once and checked: a wrong value ends the process with one sentence."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final, Literal, cast

import yaml

MAX_WORKERS: Final = 64
SECRET_BYTES_MIN: Final = 16
MAX_PORT: Final = 65_535


class SettingsError(Exception):
    """One sentence for the person who started the process."""


@dataclass(frozen=True, slots=True)
class Settings:
    home: Path
    """ACE_HOME: all state of the installation."""
    redis_url: str
    listen_host: str
    port: int
    workers: int
    http: Literal["own", "uvicorn"]
    key_pepper: bytes
    snapshot_secret: bytes
    allowed_hosts: frozenset[str]
    """Names a request may carry in `Host`, without port. Empty: any name that is well formed."""
    drain_s: float = 120.0
    """How long a stopping worker waits for its streams."""
    segment_bytes: int = 16 << 20
    spool_max_bytes: int = 2 << 30
    node: str = "localhost"
    build: str = "0"
    native: bool = True
    """Whether a compiled hot path is taken if there is one (`gateway.native`)."""

    @property
    def directory(self) -> Path:
        return self.home / "gateway"

    def slot_directory(self, slot: int) -> Path:
        return self.directory / "slots" / str(slot)


def load(environ: Mapping[str, str] | None = None) -> Settings:
    """Settings of this process, or a SettingsError that names the variable at fault."""
    env = os.environ if environ is None else environ
    home = Path(env.get("ACE_HOME") or "var").resolve()
    operator = _operator_file(env.get("ACE_OPERATOR_FILE"))
    return Settings(
        home=home,
        redis_url=env.get("REDIS_URL") or "redis://127.0.0.1:6379/0",
        listen_host=env.get("ACE_GATEWAY_HOST") or "127.0.0.1",
        port=_integer(env, "ACE_GATEWAY_PORT", 8080, (0, MAX_PORT)),
        workers=_integer(env, "ACE_GATEWAY_WORKERS", 1, (1, MAX_WORKERS)),
        http=_http(env.get("ACE_HTTP") or "own"),
        key_pepper=_secret(env, "ACE_KEY_PEPPER", home / "secrets" / "key_pepper"),
        snapshot_secret=_secret(env, "ACE_SNAPSHOT_SECRET", home / "secrets" / "snapshot_secret"),
        allowed_hosts=_hosts(env, operator),
        drain_s=float(_integer(env, "ACE_DRAIN_SECONDS", 120, (0, 3600))),
        segment_bytes=_integer(env, "ACE_SPOOL_SEGMENT_BYTES", 16 << 20, (1 << 16, 1 << 30)),
        spool_max_bytes=_integer(env, "ACE_SPOOL_MAX_BYTES", 2 << 30, (1 << 17, 1 << 40)),
        node=env.get("ACE_NODE") or socket.gethostname(),
        build=_build(),
        native=_native(env.get("ACE_NATIVE") or "auto"),
    )


def _integer(env: Mapping[str, str], name: str, default: int, bounds: tuple[int, int]) -> int:
    text = env.get(name, "")
    if not text:
        return default
    low, high = bounds
    try:
        value = int(text)
    except ValueError:
        raise SettingsError(f"{name} must be a whole number, not {text!r}.") from None
    if not low <= value <= high:
        raise SettingsError(f"{name} must lie between {low} and {high}, not {value}.")
    return value


def _http(text: str) -> Literal["own", "uvicorn"]:
    if text not in {"own", "uvicorn"}:
        raise SettingsError(f"ACE_HTTP must be 'own' or 'uvicorn', not {text!r}.")
    return cast(Literal["own", "uvicorn"], text)


def _native(text: str) -> bool:
    if text not in {"auto", "off"}:
        raise SettingsError(f"ACE_NATIVE must be 'auto' or 'off', not {text!r}.")
    return text == "auto"


def _secret(env: Mapping[str, str], name: str, path: Path) -> bytes:
    text = env.get(name, "")
    if not text:
        try:
            text = path.read_text().strip()
        except OSError as error:
            raise SettingsError(f"{name} is not set and {path} cannot be read: {error}.") from error
    secret = _from_hex(text)
    if len(secret) < SECRET_BYTES_MIN:
        raise SettingsError(f"{name} must hold at least {SECRET_BYTES_MIN} bytes.")
    return secret


def _from_hex(text: str) -> bytes:
    """Hex as the launcher writes it; anything else is taken as it stands."""
    try:
        return bytes.fromhex(text)
    except ValueError:
        return text.encode()


def _operator_file(path: str | None) -> dict[str, Any]:
    if not path:
        return {}
    try:
        document = yaml.safe_load(Path(path).read_text())
    except (OSError, yaml.YAMLError) as error:
        raise SettingsError(f"ACE_OPERATOR_FILE {path} cannot be read: {error}.") from error
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise SettingsError(f"ACE_OPERATOR_FILE {path} must be a mapping of settings.")
    return document


def _hosts(env: Mapping[str, str], operator: dict[str, Any]) -> frozenset[str]:
    """Host names from the environment (comma separated) and the operator file, plus this machine's own."""
    listed = operator.get("allowed_hosts") or []
    if not isinstance(listed, list) or not all(isinstance(name, str) for name in listed):
        raise SettingsError("allowed_hosts in the operator file must be a list of names.")
    names = {name.strip() for name in env.get("ACE_ALLOWED_HOSTS", "").split(",")} | set(listed)
    names.discard("")
    if "*" in names:
        return frozenset()
    names |= {"127.0.0.1", "localhost", "[::1]", "::1", env.get("ACE_GATEWAY_HOST") or "127.0.0.1"}
    return frozenset(name.lower() for name in names)


def _build() -> str:
    try:
        return version("ace-gateway")
    except PackageNotFoundError:
        return _version_of_tree(Path(__file__).parents[1] / "CHANGELOG.md")


def _version_of_tree(changelog: Path) -> str:
    """The first heading names the version. A tree without one is told apart from every release."""
    try:
        found = re.search(r"^## (\S+)", changelog.read_text(encoding="utf-8"), re.MULTILINE)
    except OSError:
        found = None
    return found[1] if found else "0+source"
