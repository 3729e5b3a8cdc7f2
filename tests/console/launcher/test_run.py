"""`python -m console.launcher` for real: first answer, kill -9, second start, Ctrl-C; and the starts that fail."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from openai import OpenAI

from console.launcher import ports
from console.launcher.children import children_of
from console.launcher.pod import weights_file
from tests.support.disks import full_disk
from tests.support.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.enable_socket, pytest.mark.timeout(300)]

ROOT = Path(__file__).resolve().parents[3]
READY_S = 120.0
GONE_S = 25.0


@pytest.fixture
def home() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="ace-run-"))
    yield folder / "home"
    shutil.rmtree(folder)


def environment(home: Path, **changes: str) -> dict[str, str]:
    """As a person's shell has it: nothing of the test run's servers and secrets."""
    ours = ("DATABASE_URL", "REDIS_URL", "DJANGO_", "ACE_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return {**kept, "ACE_HOME": str(home), **changes}


def launch(env: dict[str, str], log: Path) -> subprocess.Popen[bytes]:
    with log.open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "console.launcher"],
            cwd=ROOT,
            env=env,
            stdout=output,
            stderr=subprocess.STDOUT,
        )


def wait_ready(launcher: subprocess.Popen[bytes], home: Path, log: Path) -> dict[str, Any]:
    """run.json as this launcher wrote it; one that was killed before could not take its own away."""
    started_ns = Path(f"/proc/{launcher.pid}").stat().st_mtime_ns

    def written() -> bool:
        assert launcher.poll() is None, log.read_text()[-4000:]
        file = home / "run.json"
        return file.exists() and file.stat().st_mtime_ns > started_ns

    until(written, within_s=READY_S, what=f"run.json; log: {log.read_text()[-2000:]}", every_s=0.2)
    found: dict[str, Any] = json.loads((home / "run.json").read_text())
    return found


def descendants(pid: int) -> list[int]:
    return [each for child in children_of(pid) for each in (child, *descendants(child))]


def alive(pids: list[int]) -> list[int]:
    """Zombies do not count: they run nothing, and only their parent can bury them."""
    running = []
    for pid in pids:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if state != "Z":
            running.append(pid)
    return running


def ask(run: dict[str, Any]) -> str:
    """Has a streamed answer of the local model through the gateway; the request's id."""
    with OpenAI(base_url=f"{run['gateway']}/v1", api_key=run["api_key"], max_retries=0) as client:
        stream = client.chat.completions.create(
            model=run["model"],
            messages=[{"role": "user", "content": "What is the capital of France?"}],
            max_tokens=24,
            stream=True,
        )
        text = "".join(part.choices[0].delta.content or "" for part in stream if part.choices)
    assert len(text.split()) > 2, text
    return str(stream.response.headers["x-request-id"])


def explained(run: dict[str, Any], request_id: str) -> bool:
    headers = {"Authorization": f"Bearer {run['management_token']}"}
    return httpx.get(f"{run['console']}/api/v1/requests/{request_id}", headers=headers).is_success


def test_from_nothing_to_an_answer_through_a_kill_and_back(home: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    free = {
        name: str(ports.claim(name, "127.0.0.1", 0))
        for name in ("ACE_CONSOLE_PORT", "ACE_GATEWAY_PORT")
    }
    env = environment(home, **free)
    launcher = launch(env, log)
    try:
        run = wait_ready(launcher, home, log)
        assert stat.S_IMODE((home / "run.json").stat().st_mode) == 0o600
        assert run["gateway"] == f"http://127.0.0.1:{free['ACE_GATEWAY_PORT']}"
        request_id = ask(run)
        until(lambda: explained(run, request_id), within_s=15, what="the request can be explained")

        family = descendants(launcher.pid)
        assert len(family) >= 8
        launcher.kill()
        launcher.wait()
        until(lambda: not alive(family), within_s=GONE_S, what=f"{family} end with their launcher")

        launcher = launch(env, log)
        assert wait_ready(launcher, home, log) == run
        assert explained(run, request_id), "a second start keeps all data"
        family = descendants(launcher.pid)
        launcher.send_signal(signal.SIGINT)
        assert launcher.wait(timeout=60) == 0
        assert not alive(family)
        assert not (home / "run.json").exists()
    finally:
        end(launcher)


def end(launcher: subprocess.Popen[bytes]) -> None:
    """However far the test came: nothing runs on in a folder that is about to go."""
    family = descendants(launcher.pid)
    launcher.kill()
    launcher.wait()
    until(lambda: not alive(family), within_s=GONE_S, what=f"{family} end with their launcher")


def failed_start(
    env: dict[str, str], preexec: Callable[[], None] | None = None
) -> tuple[int, list[str]]:
    done = subprocess.run(
        [sys.executable, "-m", "console.launcher"],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=preexec,
        timeout=60,
    )
    return done.returncode, done.stderr.splitlines()


@pytest.mark.parametrize("variable", ["ACE_CONSOLE_PORT", "ACE_GATEWAY_PORT", "ACE_POD_PORT"])
def test_a_port_in_use_is_one_clear_line(home: Path, variable: str) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = str(listener.getsockname()[1])
        others = dict.fromkeys(("ACE_CONSOLE_PORT", "ACE_GATEWAY_PORT"), "0")
        code, lines = failed_start(environment(home, **{**others, variable: port}))
    assert code == 1
    assert lines == [f"ace: port {port} is in use on 127.0.0.1; set {variable} to a free one"]


def test_a_port_that_is_no_number_is_one_clear_line(home: Path) -> None:
    code, lines = failed_start(environment(home, ACE_CONSOLE_PORT="http"))
    assert code == 1
    assert lines == ["ace: ACE_CONSOLE_PORT must be a port number (0: any free one), not 'http'"]


def test_an_unwritable_home_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    code, lines = failed_start(environment(tmp_path / "file" / "home"))
    assert code == 1
    assert lines == [f"ace: ACE_HOME {tmp_path}/file/home cannot be written: Not a directory"]


def test_a_full_disk_is_one_clear_line(tmp_path: Path) -> None:
    with full_disk(tmp_path / "full") as preexec:
        code, lines = failed_start(environment(tmp_path / "full"), preexec)
    assert code == 1
    assert len(lines) == 1
    assert "cannot be written: " in lines[0]


def test_a_database_that_cannot_be_reached_is_one_clear_line(home: Path) -> None:
    url = f"postgresql://nobody@127.0.0.1:{ports.claim('', '127.0.0.1', 0)}/none"
    zero = {"ACE_CONSOLE_PORT": "0", "ACE_GATEWAY_PORT": "0"}
    code, lines = failed_start(environment(home, DATABASE_URL=url, **zero))
    assert code == 1
    assert len(lines) == 1
    assert lines[0].startswith("ace: the database could not be prepared: ")
    assert "Connection refused" in lines[0]


def test_the_local_model_is_there_for_the_first_answer() -> None:
    """The tests above would otherwise fail for a reason that nobody sees."""
    assert weights_file() is not None
