"""Child processes that never outlive this one, whichever way it ends."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

_TETHER = Path(__file__).with_name("tether.py")
_PR_SET_CHILD_SUBREAPER = 36


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


def adopt_orphans() -> None:
    """Grandchildren whose parent dies become ours, so that `end_orphans` can find them (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_orphans() -> None:
    """Kills and reaps whatever is still ours, until nothing is."""
    while True:
        for pid in children_of(os.getpid()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def children_of(parent: int) -> list[int]:
    return [
        int(status.parent.name)
        for status in Path("/proc").glob("[0-9]*/stat")
        if _parent_of(status) == parent
    ]


def _parent_of(status: Path) -> int | None:
    with contextlib.suppress(OSError):
        # The name may hold spaces and brackets; the fields begin behind its last one: state, parent …
        return int(status.read_text().rpartition(")")[2].split()[1])
    return None
