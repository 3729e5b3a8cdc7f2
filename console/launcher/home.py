"""ACE_HOME: all state of one installation. Made writable, locked for one run at a time, and given its secrets."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from console.launcher.errors import LauncherError

SECRETS: Final = ("key_pepper", "snapshot_secret", "django_secret_key")
_OPERATOR: Final = """\
# Written by `make run`: providers on this machine are allowed. Set ACE_OPERATOR_FILE to use a file of your own.
allowed_networks: [127.0.0.0/8, "::1/128"]
allowed_hosts: []
"""


def prepare(home: Path) -> None:
    """Raises LauncherError where `home` cannot be written or its disk is full."""
    try:
        for folder in (home, home / "secrets", home / "logs", home / "staticfiles"):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_private(home / ".probe", "\0" * (1 << 20))
        (home / ".probe").unlink()
        for name in SECRETS:
            _secret(home / "secrets" / name)
        if not operator_file(home).exists():
            write_private(operator_file(home), _OPERATOR)
    except OSError as error:
        with contextlib.suppress(OSError):
            (home / ".probe").unlink()
        raise LauncherError(f"ACE_HOME {home} cannot be written: {error.strerror}") from None


def operator_file(home: Path) -> Path:
    return home / "operator.yaml"


def write_private(path: Path, text: str) -> None:
    """All or nothing, and never readable by others, not even for a moment."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as handle:
            handle.write(text)
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def exclusive(home: Path) -> Iterator[None]:
    """The kernel drops the lock with the process, so a run that was killed leaves none behind."""
    with (home / "run.lock").open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.seek(0)
            holder = lock.read().strip() or "unknown"
            raise LauncherError(
                f"another run (process {holder}) uses ACE_HOME {home}; stop it or set ACE_HOME"
            ) from None
        lock.truncate(0)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        yield


def _secret(path: Path) -> None:
    if not path.exists():
        write_private(path, secrets.token_hex(32) + "\n")
