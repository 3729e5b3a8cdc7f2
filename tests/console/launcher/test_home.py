"""ACE_HOME: private, locked, with secrets that stay."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from console.launcher import home
from console.launcher.errors import LauncherError


def test_secrets_are_made_once_and_only_the_owner_reads_them(tmp_path: Path) -> None:
    home.prepare(tmp_path / "h")
    first = {name: (tmp_path / "h" / "secrets" / name).read_text() for name in home.SECRETS}
    home.prepare(tmp_path / "h")
    for name, text in first.items():
        path = tmp_path / "h" / "secrets" / name
        assert path.read_text() == text
        assert len(bytes.fromhex(text)) == 32
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(set(first.values())) == len(home.SECRETS)


def test_the_operator_file_allows_this_machine_and_is_not_overwritten(tmp_path: Path) -> None:
    home.prepare(tmp_path)
    assert "127.0.0.0/8" in home.operator_file(tmp_path).read_text()
    home.operator_file(tmp_path).write_text("allowed_networks: []\n")
    home.prepare(tmp_path)
    assert home.operator_file(tmp_path).read_text() == "allowed_networks: []\n"


def test_a_home_that_is_no_folder_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LauncherError, match=r"ACE_HOME .*file.* cannot be written: "):
        home.prepare(tmp_path / "file" / "below")


def test_a_failed_write_leaves_the_old_file_and_no_draft(tmp_path: Path) -> None:
    target = tmp_path / "run.json"
    home.write_private(target, "old")
    with pytest.raises(UnicodeEncodeError):
        home.write_private(target, "\ud800")
    assert target.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]


def test_two_runs_do_not_share_a_home(tmp_path: Path) -> None:
    with (
        home.exclusive(tmp_path),
        pytest.raises(LauncherError, match=rf"another run \(process {os.getpid()}\)"),
        home.exclusive(tmp_path),
    ):
        pass
    with home.exclusive(tmp_path):  # free again
        pass
