"""The supervisor: restarts with backoff, gives up by name, and leaves no process."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from console.launcher import processes
from console.launcher.errors import LauncherError
from console.launcher.output import Output
from console.launcher.processes import UNAVAILABLE, Service, Supervisor, read_procfile
from tests.support.waiting import until

ROOT = Path(__file__).resolve().parents[3]


def script(code: str) -> list[str]:
    return [sys.executable, "-c", code]


@pytest.fixture
def supervisor(tmp_path: Path) -> Iterator[Supervisor]:
    output = Output(tmp_path, ["one", "two"], quiet=True)
    found = Supervisor(dict(os.environ), ROOT, output)
    yield found
    found.stop()


def ended(service: Service) -> bool:
    return not service.running


def gone(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z"


def test_variables_of_the_procfile_are_filled_in_without_a_shell() -> None:
    commands = read_procfile(
        "web: serve --port $PORT --name '$NAME'\n", {"PORT": "1", "NAME": "a b; c"}
    )
    assert commands == {"web": ["serve", "--port", "1", "--name", "a b; c"]}


def test_a_variable_that_is_not_set_is_an_error() -> None:
    with pytest.raises(KeyError):
        read_procfile("web: serve $NOBODY_SETS_THIS\n", {})


def test_a_process_that_ends_is_started_again(supervisor: Supervisor) -> None:
    service = supervisor.start(
        "one", script("import time; print('up', flush=True); time.sleep(60)")
    )
    first = service.process
    assert first is not None
    first.kill()
    until(lambda: ended(service), within_s=5)

    def again() -> bool:
        supervisor.poll()
        return service.running and service.process is not first

    until(again, within_s=5)


def test_a_process_that_keeps_crashing_ends_the_run_with_its_name_and_reason(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "_FIRST_DELAY_S", 0.01)
    supervisor.start("one", script("import sys; sys.exit('no luck today')"))

    def loop() -> None:
        while True:
            supervisor.poll()
            time.sleep(0.01)

    with pytest.raises(
        LauncherError, match=r"one ended 5 times in a minute \(exit code 1\): no luck"
    ):
        loop()


def test_a_process_that_fails_while_starting_ends_the_run_at_once(supervisor: Supervisor) -> None:
    service = supervisor.start("one", script("import sys; sys.exit('broken')"))
    until(lambda: ended(service) and service.said(re.compile("broken")), within_s=5)
    with pytest.raises(LauncherError, match=r"one ended \(exit code 1\): broken"):
        supervisor.poll(restart=False)


def test_what_this_machine_cannot_run_is_left_out(supervisor: Supervisor) -> None:
    service = supervisor.start("one", script(f"import sys; sys.exit({UNAVAILABLE})"))
    until(lambda: ended(service), within_s=5)
    supervisor.poll(restart=False)
    assert service.unavailable


def test_the_delay_grows_with_each_crash_and_has_a_limit() -> None:
    service = Service("one", [])
    delays = []
    for crash in range(8):
        service.crashes.append(float(crash))
        delays.append(service.delay_s())
    assert delays[:4] == [0.5, 1.0, 2.0, 4.0]
    assert max(delays) == 10.0


def test_a_child_that_ignores_the_request_to_stop_is_killed_with_its_children(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "_GRACE_S", 0.3)
    stubborn = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print("child", child.pid, flush=True)
time.sleep(600)
"""
    service = supervisor.start("one", script(stubborn))
    until(lambda: service.said(re.compile(r"child \d+")), within_s=5)
    grandchild = int(service.last_line.split()[1])
    supervisor.stop()
    assert not service.running
    until(lambda: gone(grandchild), within_s=5)


def test_children_of_a_parent_killed_by_9_end_too() -> None:
    code = """
import subprocess, sys, time
from console.launcher import children
child = children.spawn([sys.executable, "-c", "import time; time.sleep(600)"], output=subprocess.DEVNULL)
print(child.pid, flush=True)
time.sleep(600)
"""
    with subprocess.Popen(script(code), stdout=subprocess.PIPE, text=True, cwd=ROOT) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        until(lambda: b"time.sleep(600)" in Path(f"/proc/{child}/cmdline").read_bytes(), within_s=5)
        parent.send_signal(signal.SIGKILL)
        parent.wait()
    until(lambda: gone(child), within_s=5)


def test_the_output_of_each_process_is_kept_in_a_file(
    supervisor: Supervisor, tmp_path: Path
) -> None:
    service = supervisor.start("two", script("print('hello'); print('wörld')"))
    until(lambda: ended(service) and service.said(re.compile("wörld")), within_s=5)
    assert (tmp_path / "two.log").read_text() == "hello\nwörld\n"
