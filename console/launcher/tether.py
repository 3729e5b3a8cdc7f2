"""Runs a command that dies with its parent: `python tether.py SIGNAL PARENT_PID command...`.

A launcher killed by -9 runs no clean-up, so the kernel must: PR_SET_PDEATHSIG survives the exec below. It is set in
this small program and not in a `preexec_fn`, which is unsafe in a parent that has threads. Standard library only and
no package import, so that it costs some 10 ms (it is run with -I -S).
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> None:
    death_signal, parent, command = int(arguments[0]), int(arguments[1]), arguments[2:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, death_signal, 0, 0, 0)
    if os.getppid() != parent:  # the parent died before the line above: nobody would ever signal us
        sys.exit(128 + signal.SIGTERM)
    os.execvp(command[0], command)  # noqa: S606 - no shell is wanted


if __name__ == "__main__":
    main(sys.argv[1:])
