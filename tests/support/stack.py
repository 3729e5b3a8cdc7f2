"""A whole installation of real processes for one test or module.

    with Stack(workers=2) as stack:
        tenant = stack.api.make_tenant()
        stack.api.make_pool("m", [engine_url])
        key = stack.api.make_key(tenant)
        stack.settle()                       # every worker runs what was just written
        answer = stack.client(key.key).chat.completions.create(model="m", messages=[...])
        rows = stack.wait_ledger(1)

Ports are free ones, state stands in a folder of its own, and nothing is left of either at the end. Processes can be
stopped, killed and started by name, the two servers (`postgres`, `valkey`) too. The test needs `enable_socket`.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import psycopg
import redis
from openai import OpenAI
from psycopg.rows import dict_row

from console.launcher import children, home, ports
from console.launcher.embedded import EmbeddedPostgres, EmbeddedValkey
from console.launcher.output import Output
from console.launcher.processes import Supervisor, read_procfile
from console.launcher.readiness import Patience, probes
from console.launcher.settings import ROOT, LauncherSettings, child_environment
from policies.schema import wire
from tests.support.api import ManagementApi
from tests.support.waiting import until

SERVERS = ("postgres", "valkey")
LEAST = ("console", "gateway", "ingest")
"""Processes of a request's way from key to ledger. Others by name: worker, beat, agent, pod."""


@dataclass
class Stack:
    """`env` is added to every process. `durable` makes both servers survive `kill -9`, at some cost in speed."""

    workers: int = 1
    processes: tuple[str, ...] = LEAST
    env: dict[str, str] = field(default_factory=dict)
    durable: bool = False
    seed: bool = False

    def __enter__(self) -> Self:
        self.home = Path(tempfile.mkdtemp(prefix="ace-stack-"))
        self._stack = contextlib.ExitStack()
        self._stack.callback(shutil.rmtree, self.home, ignore_errors=True)
        try:
            self._start()
        except BaseException as error:
            error.add_note(self.logs_tail())
            self._stack.close()
            raise
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None:
            error.add_note(self.logs_tail())
        self._stack.close()

    # ---------------------------------------------------------------------------- addresses and clients

    @property
    def console_url(self) -> str:
        return self.settings.console_url

    @property
    def gateway_url(self) -> str:
        return self.settings.gateway_url

    @property
    def pod_url(self) -> str:
        return self.settings.pod_url

    def client(self, key: str, **options: Any) -> OpenAI:
        """The official client, without its own retries: a test wants to see each answer."""
        client = OpenAI(base_url=f"{self.gateway_url}/v1", api_key=key, max_retries=0, **options)
        self._stack.callback(client.close)
        return client

    def redis(self) -> redis.Redis:
        return redis.Redis.from_url(self.settings.redis_url)

    def rows(self, query: str, *parameters: object) -> list[dict[str, Any]]:
        """Of the stack's own database."""
        with psycopg.connect(self.settings.database_url, row_factory=dict_row) as connection:
            return connection.execute(query, parameters).fetchall()

    def ledger(self) -> list[dict[str, Any]]:
        return self.rows("select * from telemetry_ledgerentry order by id")

    def wait_ledger(self, count: int, within_s: float = 15.0) -> list[dict[str, Any]]:
        def enough() -> list[dict[str, Any]]:
            rows = self.ledger()
            return rows if len(rows) >= count else []

        return until(enough, within_s=within_s, what=f"{count} ledger rows", every_s=0.1)

    def settle(self, within_s: float = 10.0) -> int:
        """Waits until every worker runs the newest snapshot; its version."""
        newest = self.rows("select max(version) as version from studio_snapshotrecord")[0][
            "version"
        ]
        self.api.wait_acked(newest, self.workers, within_s)
        return int(newest)

    # ------------------------------------------------------------------------------------------ control

    def pid(self, name: str) -> int:
        """Of a process of the Procfile or a server."""
        process = self._process(name)
        assert process is not None, f"{name} is not running"
        return process.pid

    def gateway_worker_pids(self) -> list[int]:
        return children.children_of(self.pid("gateway"))

    def stop(self, *names: str) -> None:
        """Asks each to end, in the given order, and waits for it."""
        for name in names:
            self._stop(name)

    def kill(self, *names: str) -> None:
        """kill -9 of the process itself; what it leaves behind is what the test is about."""
        for name in names:
            process = self._process(name)
            assert process is not None
            process.send_signal(signal.SIGKILL)
            process.wait()
            self._stop(name)

    def start(self, *names: str, wait: bool = True) -> None:
        for name in names:
            if name in SERVERS:
                self._servers[name].start()
            else:
                self._supervisor.start(name, self._commands[name])
        if wait:
            self._until_ready([name for name in names if name not in SERVERS])

    def manage(self, *arguments: str) -> str:
        """What `manage.py` prints, with the environment of the stack's processes."""
        command = [sys.executable, "manage.py", *arguments]
        return subprocess.run(
            command, cwd=ROOT, env=self._environment(), capture_output=True, text=True, check=True
        ).stdout

    def log(self, name: str) -> str:
        file = self.home / "logs" / f"{name}.log"
        return file.read_text(errors="replace") if file.exists() else ""

    def logs_tail(self, lines: int = 15) -> str:
        """The end of every log: attached to the failure of a test that used the stack."""
        found = [
            f"--- {file.stem}\n" + "\n".join(file.read_text(errors="replace").splitlines()[-lines:])
            for file in sorted((self.home / "logs").glob("*.log"))
        ]
        return "\n".join(found)

    # ------------------------------------------------------------------------------------------- inside

    def _start(self) -> None:
        home.prepare(self.home)
        self.settings = replace(
            LauncherSettings.from_environment(),
            home=self.home.resolve(),
            console_port=ports.claim("ACE_CONSOLE_PORT", "127.0.0.1", 0),
            gateway_port=ports.claim("ACE_GATEWAY_PORT", "127.0.0.1", 0),
            pod_port=ports.claim("ACE_POD_PORT", "127.0.0.1", 0),
            seed_demo=self.seed,
        )
        self._servers: dict[str, EmbeddedPostgres | EmbeddedValkey] = {
            "postgres": EmbeddedPostgres(self.home, self.durable),
            "valkey": EmbeddedValkey(self.home, self.durable),
        }
        for server in self._servers.values():
            self._stack.callback(server.stop)
        token = self._prepare()
        self._commands = read_procfile((ROOT / "Procfile").read_text(), self._environment())
        output = Output(self.home / "logs", list(self._commands), quiet=True)
        self._supervisor = Supervisor(self._environment(), ROOT, output)
        self._stack.callback(self._supervisor.stop)
        self.start(*self.processes)
        self.api = ManagementApi(self.console_url, token)
        self._stack.callback(self.api.close)

    def _prepare(self) -> str:
        """Migrated servers and a management token; from the second stack of a run on, out of a copied cluster."""
        template = Path(os.environ["ACE_TEST_ROOT"]) / "stack-template"
        if not self.seed and template.exists():
            shutil.copytree(template / "postgres", self.home / "postgres")
            self._start_servers()
            self._announce()
        else:
            self._start_servers()
            self._first_token()
            if not self.seed:
                self._keep_as(template)
        return str(json.loads(self._token_file().read_text())["management_token"])

    def _start_servers(self) -> None:
        self.settings = replace(
            self.settings,
            database_url=self._servers["postgres"].start(),
            redis_url=self._servers["valkey"].start(),
        )

    def _announce(self) -> None:
        """What beat does in an installation whose Redis is empty; most stacks run without it."""
        newest = self.rows(
            "select version, envelope from studio_snapshotrecord order by version desc limit 1"
        )[0]
        fields = {"version": newest["version"], "envelope": bytes(newest["envelope"])}
        with self.redis() as client:
            client.hset(wire.SNAPSHOT_KEY, mapping=fields)

    def _first_token(self) -> None:
        command = [sys.executable, "-m", "tests.support.first_token", str(self._token_file())]
        done = subprocess.run(
            command, cwd=ROOT, env=self._environment(), capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, (
            f"the database could not be prepared:\n{done.stdout}{done.stderr}"
        )

    def _token_file(self) -> Path:
        """Pepper and secrets are those of the test run, so a token of the template opens every copy."""
        shared = Path(os.environ["ACE_TEST_ROOT"]) / "stack-token.json"
        return self.home / "token.json" if self.seed else shared

    def _keep_as(self, template: Path) -> None:
        self._servers["postgres"].stop()
        draft = Path(tempfile.mkdtemp(prefix="draft-", dir=template.parent))
        shutil.copytree(self.home / "postgres", draft / "postgres")
        draft.replace(template)
        self._servers["postgres"].start()

    def _environment(self) -> dict[str, str]:
        environment = child_environment(self.settings, home.operator_file(self.home))
        environment["DJANGO_SETTINGS_MODULE"] = "console.settings.dev"
        environment["ACE_OPERATOR_FILE"] = str(home.operator_file(self.home))
        environment["ACE_GATEWAY_WORKERS"] = str(self.workers)
        return {**environment, **self.env}

    def _process(self, name: str) -> subprocess.Popen[bytes] | None:
        if name in SERVERS:
            return self._servers[name].process
        return self._supervisor.services[name].process

    def _stop(self, name: str) -> None:
        if name in SERVERS:
            self._servers[name].stop()
        else:
            self._supervisor.stop_one(name)

    def _until_ready(self, names: list[str]) -> None:
        wanted = probes(self.settings)
        patience = Patience(self._supervisor, self._supervisor.output)
        patience.until_ready({name: wanted[name] for name in names})
