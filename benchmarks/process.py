"""Starting, pinning, measuring and ending the processes of a benchmark."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

GATEWAY_CORE: Final = 0
LOAD_CORE: Final = (os.cpu_count() or 1) - 1
"""The last core: the load generator and the engine stay off the core that is measured."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_for_port(port: int, process: subprocess.Popen[bytes], seconds: float = 60.0) -> None:
    """Return once something listens; RuntimeError when the process ended or time ran out."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if process.poll() is not None:
            raise RuntimeError(f"ended with exit code {process.returncode} before it listened")
        with socket.socket() as probe:
            probe.settimeout(0.2)
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise RuntimeError(f"did not listen on port {port} within {seconds:.0f} s")


@contextmanager
def running(
    command: Sequence[str],
    *,
    core: int,
    log: Path,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    """The command pinned to one core, in a process group of its own that is ended at the end."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*_pin(core), *command],
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(env or {})},
            cwd=cwd,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        _end(process)


def _pin(core: int) -> list[str]:
    return ["taskset", "-c", str(core)] if shutil.which("taskset") else []


def _end(process: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            return
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            continue


def cpu_ns(root: int) -> int:
    """CPU time of a process and all its descendants, from the scheduler's own count.

    `schedstat` counts nanoseconds for each thread; `stat` has ticks of 10 ms.
    """
    return sum(_threads_ns(pid) for pid in _family(root))


def _threads_ns(pid: int) -> int:
    total = 0
    for path in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        try:
            total += int(path.read_text().split()[0])
        except (FileNotFoundError, ProcessLookupError):
            continue
    return total


def _family(root: int) -> set[int]:
    parents: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = path.read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
        parents[int(path.parent.name)] = int(text.rpartition(")")[2].split()[1])
    family = {root}
    while True:
        found = {pid for pid, parent in parents.items() if parent in family} - family
        if not found:
            return family
        family |= found


def build_native(folder: Path) -> dict[str, Path]:
    """The C programs of `benchmarks/native`, compiled into `folder`."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        sys.exit("make bench needs a C compiler (Debian: apt-get install gcc libc6-dev)")
    built = {}
    for source in sorted((Path(__file__).parent / "native").glob("*.c")):
        built[source.stem] = folder / source.stem
        subprocess.run([compiler, "-O2", "-o", built[source.stem], source], check=True)
    return built
