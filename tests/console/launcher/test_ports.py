"""Ports: a taken one is named with the variable that changes it."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from console.launcher import ports
from console.launcher.errors import LauncherError

pytestmark = pytest.mark.enable_socket


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


def test_a_taken_port_is_one_clear_line(taken: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "_PATIENCE_S", 0.1)
    with pytest.raises(LauncherError, match=rf"port {taken} is in use .*set ACE_CONSOLE_PORT"):
        ports.claim("ACE_CONSOLE_PORT", "127.0.0.1", taken)


def test_an_address_that_is_not_ours_is_refused() -> None:
    with pytest.raises(LauncherError, match=r"cannot listen on 203\.0\.113\.1:"):
        ports.claim("ACE_CONSOLE_PORT", "203.0.113.1", 8000)


def test_zero_means_any_free_one() -> None:
    assert ports.claim("ACE_CONSOLE_PORT", "127.0.0.1", 0) > 1024


def test_the_port_of_the_last_run_is_taken_again_when_it_is_free(tmp_path: Path) -> None:
    memory = tmp_path / "pod_port"
    first = ports.claim_kept("ACE_POD_PORT", 0, memory)
    assert ports.claim_kept("ACE_POD_PORT", 0, memory) == first


def test_the_port_of_the_last_run_is_given_up_when_it_is_taken(tmp_path: Path, taken: int) -> None:
    memory = tmp_path / "pod_port"
    memory.write_text(f"{taken}\n")
    chosen = ports.claim_kept("ACE_POD_PORT", 0, memory)
    assert chosen != taken
    assert memory.read_text() == f"{chosen}\n"
