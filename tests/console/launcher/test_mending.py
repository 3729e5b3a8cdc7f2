from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from console.launcher.embedded import EmbeddedValkey
from console.launcher.errors import LauncherError
from console.launcher.mending import Mended
from console.launcher.output import Output
from console.launcher.processes import MAX_CRASHES
from tests.support.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.enable_socket, pytest.mark.timeout(60)]


@pytest.fixture
def server() -> Iterator[EmbeddedValkey]:
    home = Path(tempfile.mkdtemp(prefix="ace-mend-"))
    server = EmbeddedValkey(home)
    server.start()
    yield server
    server.stop()
    shutil.rmtree(home)


def kill(server: EmbeddedValkey) -> None:
    process = server.process
    assert process is not None
    os.kill(process.pid, signal.SIGKILL)
    process.wait()


def test_a_killed_server_comes_back_where_it_was_with_what_it_had(
    server: EmbeddedValkey, tmp_path: Path
) -> None:
    mended = Mended(server, Output(tmp_path, ["valkey"], quiet=True))
    with redis.Redis.from_url(server.url) as client:
        client.set("kept", 1)
        client.execute_command("WAITAOF", 1, 0, 2000)
        kill(server)
        mended.check()
        until(client.ping, within_s=5)
        assert client.get("kept") == b"1"


def test_a_server_that_does_not_stay_up_ends_the_run_with_its_reason(
    server: EmbeddedValkey, tmp_path: Path
) -> None:
    mended = Mended(server, Output(tmp_path, ["valkey"], quiet=True))
    for _ in range(MAX_CRASHES - 1):
        kill(server)
        mended.check()
    kill(server)
    with pytest.raises(LauncherError, match="Valkey ended"):
        mended.check()
