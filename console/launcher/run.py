"""`python -m console.launcher`: from nothing to a running installation, in the foreground, until Ctrl-C.

    home and ports -> embedded servers -> migrations and seed -> processes -> ready -> run.json -> watch -> stop

Nothing is left behind on any way out: an ordered stop where there is time for one, the kernel where there is not
(`tether`), and the orphans of both are adopted and ended here.
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field, replace
from types import FrameType

from console.launcher import children, home, ports, runfile
from console.launcher.demo import Demo, bare_run_file
from console.launcher.embedded import EmbeddedPostgres, EmbeddedValkey
from console.launcher.errors import LauncherError
from console.launcher.greeting import greeting
from console.launcher.mending import Mended
from console.launcher.output import Output
from console.launcher.processes import Supervisor, read_procfile
from console.launcher.readiness import POLL_S, Patience, models_probe, probes
from console.launcher.settings import ROOT, LauncherSettings, child_environment


def main() -> int:
    children.adopt_orphans()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _request_stop)
    try:
        settings = LauncherSettings.from_environment()
        home.prepare(settings.home)
        with home.exclusive(settings.home):
            runfile.remove(settings.home)
            Run(settings).until_stopped()
    except LauncherError as error:
        print(f"ace: {error}", file=sys.stderr, flush=True)
        return 1
    except KeyboardInterrupt:
        return 0
    finally:
        children.end_orphans()
    return 0


def _request_stop(_number: int, _frame: FrameType | None) -> None:
    """Every signal unwinds through the same clean-up as Ctrl-C."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # a second Ctrl-C must not interrupt the clean-up
    raise KeyboardInterrupt


@dataclass
class Run:
    settings: LauncherSettings
    embedded: list[EmbeddedPostgres | EmbeddedValkey] = field(default_factory=list)

    def until_stopped(self) -> None:
        started = time.monotonic()
        self._choose_ports()
        with contextlib.ExitStack() as stack:
            self._start_servers(stack)
            environment = child_environment(self.settings, home.operator_file(self.settings.home))
            procfile = (ROOT / "Procfile").read_text(encoding="utf-8")
            commands = read_procfile(procfile, environment)
            output = Output(self.settings.home / "logs", list(commands))
            demo = self._prepare(environment, output)
            supervisor = Supervisor(environment, ROOT, output)
            stack.callback(self._stop, supervisor, output)
            for name, command in commands.items():
                supervisor.start(name, command)
            self._wait_until_ready(supervisor, output, demo)
            self._announce(output, demo, time.monotonic() - started)
            self._watch(supervisor, output)

    def _choose_ports(self) -> None:
        asked = self.settings
        self.settings = replace(
            asked,
            console_port=ports.claim("ACE_CONSOLE_PORT", asked.console_host, asked.console_port),
            gateway_port=ports.claim("ACE_GATEWAY_PORT", asked.gateway_host, asked.gateway_port),
            pod_port=ports.claim_kept("ACE_POD_PORT", asked.pod_port, asked.home / "pod_port"),
        )

    def _start_servers(self, stack: contextlib.ExitStack) -> None:
        """Those that no URL was given for. Stopped last: everything else may still write while it ends."""
        if not self.settings.database_url:
            postgres = EmbeddedPostgres(self.settings.home)
            stack.callback(postgres.stop)
            self.settings = replace(self.settings, database_url=postgres.start())
            self.embedded.append(postgres)
        if not self.settings.redis_url:
            valkey = EmbeddedValkey(self.settings.home)
            stack.callback(valkey.stop)
            self.settings = replace(self.settings, redis_url=valkey.start())
            self.embedded.append(valkey)

    def _prepare(self, environment: dict[str, str], output: Output) -> Demo | None:
        """Migrations and seed run in a process of their own: the launcher itself stays without Django."""
        output.line("ace", "bringing the database up to date")
        command = [sys.executable, "-m", "console.launcher.prepare"]
        process = children.spawn(command, output=subprocess.PIPE, env=environment, cwd=ROOT)
        try:
            text, _ = process.communicate()
        finally:
            children.stop(process)
        lines = text.decode(errors="replace").splitlines() or ["no output"]
        for line in lines:
            output.line("prepare", line)
        if process.returncode != 0:
            raise LauncherError(f"the database could not be prepared: {lines[-1]}")
        return Demo.read(self.settings.home) if self.settings.seed_demo else None

    def _wait_until_ready(self, supervisor: Supervisor, output: Output, demo: Demo | None) -> None:
        """Each process by its own sign, then the way of an application through all of them."""
        patience = Patience(supervisor, output)
        patience.until_ready(probes(self.settings))
        if demo is not None:
            patience.until_ready({"gateway": models_probe(self.settings, demo)})

    def _announce(self, output: Output, demo: Demo | None, seconds: float) -> None:
        run = demo.run_file(self.settings) if demo else bare_run_file(self.settings)
        run.write(self.settings.home)
        output.plain(greeting(run, self.settings.home, seconds))

    def _watch(self, supervisor: Supervisor, output: Output) -> None:
        servers = [Mended(server, output) for server in self.embedded]
        while True:
            supervisor.poll()
            for server in servers:
                server.check()
            time.sleep(POLL_S)

    def _stop(self, supervisor: Supervisor, output: Output) -> None:
        output.line("ace", "stopping")
        runfile.remove(self.settings.home)
        supervisor.stop()
