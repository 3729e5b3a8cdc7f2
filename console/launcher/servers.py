"""What the embedded servers share: where their sockets stand, and how one waits for them."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from console.launcher.children import stop
from console.launcher.errors import LauncherError

READY_TIMEOUT_S: Final = 30.0
PREDECESSOR_S: Final = 10.0
"""How long a server of a run that was killed may take to end."""
_SOCKET_DIR_LIMIT: Final = 80
"""Bytes. A socket's path may have 107; the longest name under the folder is `pg/.s.PGSQL.5432`."""


def socket_dir(home: Path) -> Path:
    """A folder for sockets whose path is short enough, always the same one for the same home."""
    inside = home.resolve() / "run"
    if len(os.fsencode(inside)) <= _SOCKET_DIR_LIMIT:
        return inside
    digest = hashlib.sha256(os.fsencode(home.resolve())).hexdigest()[:12]
    return Path(tempfile.gettempdir()) / f"ace-{os.getuid()}-{digest}"


def make_socket_dir(home: Path) -> Path:
    """The same folder, there and private. Raises LauncherError where somebody else was there first."""
    folder = socket_dir(home)
    folder.mkdir(parents=True, exist_ok=True)
    if folder.stat().st_uid != os.getuid():
        raise LauncherError(f"{folder} belongs to another user; remove it or set TMPDIR")
    # Traversable by the database's own user when we are root, listable by nobody.
    folder.chmod(0o711 if os.getuid() == 0 else 0o700)
    return folder


def wait_until_ready(
    name: str,
    process: subprocess.Popen[bytes] | None,
    answers: Callable[[], bool],
    log: Path,
) -> None:
    assert process is not None
    deadline = time.monotonic() + READY_TIMEOUT_S
    while not answers():
        if process.poll() is not None:
            raise LauncherError(f"{name} did not start: {log_end(log)} (log: {log})")
        if time.monotonic() > deadline:
            stop(process, first=signal.SIGKILL)
            raise LauncherError(f"{name} did not answer in {READY_TIMEOUT_S:.0f} s (log: {log})")
        time.sleep(0.02)


def check_running(name: str, process: subprocess.Popen[bytes] | None, log: Path) -> None:
    if process is not None and process.poll() is not None:
        raise LauncherError(f"{name} ended: {log_end(log)} (log: {log})")


def log_end(log: Path) -> str:
    """The last line that tells something: PostgreSQL puts its reason before "database system is shut down"."""
    lines = log.read_text(errors="replace").splitlines()
    telling = [line for line in lines if "FATAL" in line or "PANIC" in line or "# " in line]
    return (telling or lines or ["no output"])[-1].strip()


def last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "no output"
