"""Early pytest plugin (`-p tests.servers`): one PostgreSQL and one Valkey for the whole run.

pytest-django reads the settings, and with them the environment, before any conftest; so this runs before it. With
xdist the controller starts the servers and its workers inherit their addresses; each worker has a Valkey database of
its own (pytest-django gives each a PostgreSQL database). With DATABASE_URL or REDIS_URL set, those servers are used.
"""

from __future__ import annotations

import atexit
import os
import secrets
import shutil
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest

from console.launcher.embedded import EmbeddedPostgres, EmbeddedValkey

_OURS = "ACE_TEST_SERVERS"
_SECRETS = ("ACE_KEY_PEPPER", "ACE_SNAPSHOT_SECRET", "DJANGO_SECRET_KEY")


class TestServers:
    """Started once in the controller, or in the only process there is."""

    __test__ = False

    def __init__(self) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="ace-test-"))
        self._postgres: EmbeddedPostgres | None = None
        self._valkey: EmbeddedValkey | None = None

    def start(self) -> None:
        os.environ[_OURS] = ""
        if "DATABASE_URL" not in os.environ:
            self._postgres = EmbeddedPostgres(self.root, durable=False)
            os.environ["DATABASE_URL"] = self._postgres.start()
        if "REDIS_URL" not in os.environ:
            self._valkey = EmbeddedValkey(self.root, durable=False)
            os.environ["REDIS_URL"] = os.environ[_OURS] = self._valkey.start()

    def stop(self) -> None:
        """Stopped twice (unconfigure, then exit) does nothing the second time."""
        for server in (self._valkey, self._postgres):
            if server is not None:
                server.stop()
        shutil.rmtree(self.root, ignore_errors=True)


_servers: TestServers | None = None


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests() -> Generator[None, None, None]:
    """A wrapper: it runs before pytest-django's implementation, whichever was registered first."""
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if worker is None:
        _start()
    _separate(worker or "main")
    return (yield)


def pytest_unconfigure() -> None:
    if _servers is not None:
        _servers.stop()


def _start() -> None:
    global _servers  # noqa: PLW0603 - a plugin module is the object pytest knows
    _servers = TestServers()
    atexit.register(_servers.stop)  # an INTERNALERROR or a refused option skips unconfigure
    _servers.start()
    os.environ["ACE_TEST_ROOT"] = str(_servers.root)
    os.environ["ACE_SEED_DEMO"] = "0"
    for name in _SECRETS:
        os.environ[name] = secrets.token_hex(32)


def _separate(worker: str) -> None:
    """A home per process, never the developer's own; and of our Valkey's databases, one per worker."""
    home = Path(os.environ["ACE_TEST_ROOT"]) / f"home-{worker}"
    home.mkdir(exist_ok=True)
    os.environ["ACE_HOME"] = str(home)
    if os.environ[_OURS] and worker.startswith("gw"):
        number = int(worker.removeprefix("gw")) + 1
        os.environ["REDIS_URL"] = os.environ[_OURS].replace("?db=0", f"?db={number}")
