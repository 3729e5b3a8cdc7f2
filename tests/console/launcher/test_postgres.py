"""The embedded PostgreSQL: data stay, a killed launcher leaves nothing, a stale lock stops nobody."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from console.launcher.embedded import EmbeddedPostgres, make_socket_dir
from console.launcher.errors import LauncherError
from tests.support.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.enable_socket]

KILLED = """
import os, signal, sys
from pathlib import Path
from console.launcher.embedded import EmbeddedPostgres, EmbeddedValkey
home = Path(sys.argv[1])
servers = [EmbeddedPostgres(home), EmbeddedValkey(home)]
for server in servers:
    server.start()
print(*[server.process.pid for server in servers], flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def home() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="ace-pg-"))
    yield folder
    shutil.rmtree(folder)


def count(url: str) -> int:
    with psycopg.connect(url) as connection:
        connection.execute("create table if not exists visits (at timestamptz default now())")
        connection.execute("insert into visits default values")
        row = connection.execute("select count(*) from visits").fetchone()
    assert row is not None
    return int(row[0])


def test_a_second_start_keeps_the_data(home: Path) -> None:
    for expected in (1, 2):
        server = EmbeddedPostgres(home, durable=False)
        try:
            assert count(server.start()) == expected
        finally:
            server.stop()


def test_servers_of_a_killed_launcher_end_and_the_next_one_starts(home: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(home)], capture_output=True, text=True, check=False
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    server = EmbeddedPostgres(home)
    try:
        assert count(server.start()) == 1
    finally:
        server.stop()
    for pid in done.stdout.split():
        until(lambda pid=pid: not Path(f"/proc/{pid}/exe").exists(), within_s=10)  # type: ignore[misc]


def test_a_lock_file_that_names_a_stranger_is_removed(home: Path) -> None:
    server = EmbeddedPostgres(home, durable=False)
    server.start()
    server.stop()
    (server.data / "postmaster.pid").write_text(
        f"{os.getpid()}\n{server.data}\n1\n5432\n\n\n\nready\n"
    )
    try:
        assert count(server.start()) == 1
    finally:
        server.stop()


def test_an_interrupted_set_up_is_not_taken_for_a_cluster(home: Path) -> None:
    draft = home / "postgres.new"
    draft.mkdir()
    (draft / "PG_VERSION").write_text("18\n")
    server = EmbeddedPostgres(home, durable=False)
    try:
        assert count(server.start()) == 1
    finally:
        server.stop()


def test_a_cluster_of_an_unknown_version_is_refused_with_the_way_out(home: Path) -> None:
    (home / "postgres").mkdir()
    (home / "postgres" / "PG_VERSION").write_text("9\n")
    with pytest.raises(LauncherError, match=r"made by PostgreSQL 9, here is .*set DATABASE_URL"):
        EmbeddedPostgres(home).start()


def test_a_server_that_ends_by_itself_is_named(home: Path) -> None:
    server = EmbeddedPostgres(home, durable=False)
    server.start()
    assert server.process is not None
    server.process.kill()
    server.process.wait()
    with pytest.raises(LauncherError, match="PostgreSQL ended"):
        server.check()
    server.stop()


def test_sockets_of_a_home_with_a_long_path_stand_where_the_path_fits(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 60) / ("e" * 60)
    deep.mkdir(parents=True)
    folder = make_socket_dir(deep)
    try:
        assert len(os.fsencode(folder / "pg" / ".s.PGSQL.5432")) <= 107
        assert folder == make_socket_dir(deep)
        assert folder.stat().st_mode & 0o066 == 0
    finally:
        folder.rmdir()
