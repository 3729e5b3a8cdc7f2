"""The embedded Valkey: append-only data survive a stop and a kill."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from console.launcher.embedded import EmbeddedValkey
from console.launcher.errors import LauncherError

pytestmark = [pytest.mark.integration, pytest.mark.enable_socket]


@pytest.fixture
def home() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="ace-vk-"))
    yield folder
    shutil.rmtree(folder)


def visit(url: str) -> int:
    with redis.Redis.from_url(url) as client:
        return int(client.incr("visits"))


def test_a_second_start_keeps_the_data(home: Path) -> None:
    for expected in (1, 2):
        server = EmbeddedValkey(home)
        try:
            assert visit(server.start()) == expected
        finally:
            server.stop()


def test_a_killed_server_starts_again_with_what_was_synced(home: Path) -> None:
    server = EmbeddedValkey(home)
    visit(server.start())
    time.sleep(1.2)  # appendfsync everysec
    assert server.process is not None
    server.process.kill()
    server.process.wait()
    with pytest.raises(LauncherError, match="Valkey ended"):
        server.check()
    try:
        assert visit(server.start()) == 2
    finally:
        server.stop()


def test_two_servers_never_share_one_folder(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("console.launcher.valkey.PREDECESSOR_S", 0.2)
    server = EmbeddedValkey(home)
    server.start()
    try:
        with pytest.raises(LauncherError, match="another Valkey is running"):
            EmbeddedValkey(home).start()
    finally:
        server.stop()
