"""Ports are looked at before anything starts, so that a taken one costs a line and not a traceback."""

from __future__ import annotations

import errno
import socket
import time
from pathlib import Path
from typing import Final

from console.launcher.errors import LauncherError

_PATIENCE_S: Final = 3.0
"""A run that was killed a moment ago is still letting go of its ports."""


def claim(variable: str, host: str, port: int) -> int:
    """`port` when it is free, any free one for 0. Raises LauncherError that names the variable to set."""
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            return _bind(host, port)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise LauncherError(f"cannot listen on {host}:{port}: {error.strerror}") from None
        if time.monotonic() > deadline:
            raise LauncherError(f"port {port} is in use on {host}; set {variable} to a free one")
        time.sleep(0.1)


def claim_kept(variable: str, port: int, memory: Path) -> int:
    """Like `claim` on loopback, but for 0 the port of the last run when it is free: endpoints keep their address."""
    if port == 0 and memory.exists():
        text = memory.read_text().strip()
        if text.isdigit() and is_free("127.0.0.1", int(text)):
            port = int(text)
    claimed = claim(variable, "127.0.0.1", port)
    memory.write_text(f"{claimed}\n")
    return claimed


def is_free(host: str, port: int) -> bool:
    try:
        return bool(_bind(host, port))
    except OSError:
        return False


def _bind(host: str, port: int) -> int:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        # Connections of an earlier run in TIME_WAIT do not matter; a listener does.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((host, port))
        return int(probe.getsockname()[1])
