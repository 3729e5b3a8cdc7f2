"""Keeps the processes of the Procfile running: output with names, restarts with backoff, one orderly stop."""

from __future__ import annotations

import re
import shlex
import string
import subprocess
import threading
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from honcho.environ import parse_procfile

from console.launcher import children
from console.launcher.errors import LauncherError
from console.launcher.output import Output

UNAVAILABLE: Final = 3
"""Exit code of a process that this machine cannot run (the pod without its wheel): left out, not restarted."""

MAX_CRASHES: Final = 5
CRASH_WINDOW_S: Final = 60.0
_FIRST_DELAY_S: Final = 0.5
_MAX_DELAY_S: Final = 10.0
_REMEMBERED_LINES: Final = 200
_GRACE_S: Final = 8.0
STOP_ORDER: Final = ("gateway", "console", "agent", "beat", "worker", "ingest", "pod")
"""The gateway first: it drains, and what it still measures is shipped while ingest runs."""


def read_procfile(text: str, environment: Mapping[str, str]) -> dict[str, list[str]]:
    """Name -> command. `$NAME` is filled in here, without a shell, so that each child is the program itself."""
    commands = parse_procfile(text).processes
    return {
        name: [string.Template(part).substitute(environment) for part in shlex.split(command)]
        for name, command in commands.items()
    }


@dataclass
class Service:
    """One line of the Procfile and what became of it."""

    name: str
    command: list[str]
    process: subprocess.Popen[bytes] | None = None
    crashes: deque[float] = field(default_factory=deque)
    restart_at: float | None = None
    unavailable: bool = False
    lines: deque[str] = field(default_factory=lambda: deque(maxlen=_REMEMBERED_LINES))

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def last_line(self) -> str:
        return self.lines[-1] if self.lines else "no output"

    def said(self, pattern: re.Pattern[str]) -> bool:
        return any(pattern.search(line) for line in tuple(self.lines))

    def delay_s(self) -> float:
        return float(min(_FIRST_DELAY_S * 2 ** max(len(self.crashes) - 1, 0), _MAX_DELAY_S))


class Supervisor:
    """All children of one run. Not thread-safe: one loop starts, polls and stops them."""

    def __init__(self, environment: Mapping[str, str], root: Path, output: Output) -> None:
        self._environment = environment
        self._root = root
        self.output = output
        self.services: dict[str, Service] = {}

    def start(self, name: str, command: list[str]) -> Service:
        service = self.services.setdefault(name, Service(name, command))
        service.restart_at = None
        service.unavailable = False
        service.lines.clear()
        service.process = children.spawn(
            command, output=subprocess.PIPE, env=self._environment, cwd=self._root
        )
        threading.Thread(
            target=self._pump, args=(service, service.process), name=f"output-{name}", daemon=True
        ).start()
        return service

    def poll(self, *, restart: bool = True) -> None:
        """Sees who ended. Raises LauncherError for a service that cannot be kept up."""
        now = time.monotonic()
        for service in self.services.values():
            if service.unavailable or service.running:
                continue
            if service.restart_at is None:
                self._ended(service, now, restart=restart)
            elif now >= service.restart_at:
                self.start(service.name, service.command)

    def stop(self) -> None:
        """In order; each has its grace, then its whole group is killed."""
        order = {name: place for place, name in enumerate(STOP_ORDER)}
        for service in sorted(self.services.values(), key=lambda one: order.get(one.name, 99)):
            self.stop_one(service.name)

    def stop_one(self, name: str) -> None:
        """It stays down until it is started again."""
        service = self.services[name]
        if service.process is not None:
            children.stop(service.process, grace_s=_GRACE_S)
            service.process = None
        service.unavailable = True

    def _ended(self, service: Service, now: float, *, restart: bool) -> None:
        code = service.process.returncode if service.process else None
        if code == UNAVAILABLE:
            service.unavailable = True
            return
        while service.crashes and now - service.crashes[0] > CRASH_WINDOW_S:
            service.crashes.popleft()
        service.crashes.append(now)
        if not restart or len(service.crashes) >= MAX_CRASHES:
            times = f" {len(service.crashes)} times in a minute" if restart else ""
            raise LauncherError(
                f"{service.name} ended{times} ({_reason(code)}): {service.last_line}"
            )
        service.restart_at = now + service.delay_s()
        self.output.line("ace", f"{service.name} ended ({_reason(code)}), starting it again")

    def _pump(self, service: Service, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        with process.stdout:
            for raw in process.stdout:
                text = raw.decode(errors="replace").rstrip()
                if text:
                    service.lines.append(text[:300])
                self.output.line(service.name, text)


def _reason(code: int | None) -> str:
    if code is None:
        return "not started"
    return f"signal {-code}" if code < 0 else f"exit code {code}"
