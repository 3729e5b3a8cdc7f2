"""A disk that is full, for real where a tmpfs may be mounted, else as the limit on file sizes shows it."""

from __future__ import annotations

import contextlib
import resource
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

SMALL_BYTES = 64 << 10


@contextlib.contextmanager
def full_disk(folder: Path) -> Iterator[Callable[[], None] | None]:
    """Yields the `preexec_fn` that a process needs to find `folder` full; None where the disk itself is."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SMALL_BYTES}", "tmpfs", str(folder)]
    try:
        mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        mounted = False
    if not mounted:
        yield lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (SMALL_BYTES, SMALL_BYTES))
        return
    try:
        yield None
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)
