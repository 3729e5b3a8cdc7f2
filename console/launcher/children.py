"""Child processes that never outlive this one, whichever way it ends."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

_TETHER = Path(__file__).with_name("tether.py")


def spawn(
    command: Sequence[str],
    *,
    output: IO[bytes] | int,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    death_signal: signal.Signals = signal.SIGTERM,
) -> subprocess.Popen[bytes]:
    """Starts `command` in a session of its own: Ctrl-C reaches the launcher alone, which then stops in order.

    Must be called from a thread that lives as long as the process: the kernel ties the child to that thread.
    """
    tether = [sys.executable, "-I", "-S", str(_TETHER), str(int(death_signal)), str(os.getpid())]
    return subprocess.Popen(
        [*tether, *command],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        env=env,
        cwd=cwd,
        start_new_session=True,
    )


def stop(
    process: subprocess.Popen[bytes],
    *,
    first: signal.Signals = signal.SIGTERM,
    grace_s: float = 10.0,
) -> None:
    """Asks, waits, then kills the child's whole group, so that no grandchild is left either."""
    if process.poll() is None:
        process.send_signal(first)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(grace_s)
    kill_group(process.pid)
    process.wait()


def kill_group(leader: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)
