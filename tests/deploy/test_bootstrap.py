"""The set-up on a machine that lacks something: one clear line, exit code 1, nothing half made."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from tests.support.disks import full_disk

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "deploy" / "bootstrap.py"

WITHOUT_VENV = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"venv", "ensurepip", "virtualenv"}:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Blocked())
import importlib.util
real = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: (
    None if name in {"venv", "ensurepip", "virtualenv"} else real(name, package)
)
"""


def bootstrap(
    *arguments: str, env: dict[str, str], code: str = "", preexec: Callable[[], None] | None = None
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), *arguments]
    if code:
        runner = f"import runpy, sys; sys.argv = {[str(SCRIPT), *arguments]!r}\n{code}\n"
        runner += f"runpy.run_path({str(SCRIPT)!r}, run_name='__main__')"
        command = [sys.executable, "-c", runner]
    return subprocess.run(
        command,
        env={"PATH": "/nowhere", "HOME": "/nonexistent", **env},
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=preexec,
    )


def one_line(done: subprocess.CompletedProcess[str]) -> str:
    """The only line on stderr of a set-up that failed."""
    assert done.returncode == 1, done.stdout + done.stderr
    lines = done.stderr.splitlines()
    assert len(lines) == 1, done.stderr
    return lines[0]


@pytest.fixture(scope="module")
def module() -> ModuleType:
    spec = importlib.util.spec_from_file_location("bootstrap", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def test_a_missing_venv_module_names_the_package_to_install(tmp_path: Path) -> None:
    env = {"ACE_VENV": str(tmp_path / "venv"), "ACE_HOME": str(tmp_path / "home")}
    line = one_line(bootstrap("run", env=env, code=WITHOUT_VENV))
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    assert line.endswith(f"install it with: sudo apt-get install python{version}-venv")
    assert not (tmp_path / "venv").exists()


def test_an_old_python_is_named_with_what_is_needed(tmp_path: Path) -> None:
    env = {"ACE_VENV": str(tmp_path / "venv"), "ACE_HOME": str(tmp_path / "home")}
    line = one_line(bootstrap("run", env=env, code="sys.version_info = (3, 10, 4)"))
    assert "Python 3.11 or newer is needed" in line
    assert "is 3.10.4" in line


def test_an_unwritable_home_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    env = {"ACE_VENV": str(tmp_path / "venv"), "ACE_HOME": str(tmp_path / "file" / "home")}
    line = one_line(bootstrap("run", env=env))
    assert line.startswith(f"ace: ACE_HOME {tmp_path}/file/home cannot be written: ")


def test_a_full_disk_is_one_clear_line_and_leaves_no_probe(tmp_path: Path) -> None:
    with full_disk(tmp_path / "full") as preexec:
        env = {"ACE_VENV": str(tmp_path / "venv"), "ACE_HOME": str(tmp_path / "full")}
        line = one_line(bootstrap("run", env=env, preexec=preexec))
        assert "cannot be written: " in line
        assert list((tmp_path / "full").iterdir()) == []


def test_too_little_space_is_said_before_anything_is_downloaded(
    module: ModuleType, tmp_path: Path
) -> None:
    with pytest.raises(module.BootstrapError, match=r"MiB free, \d+ MiB are needed"):
        module.check_space(tmp_path, 1 << 40, "the folder")


def test_an_unwritable_place_for_the_environment_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    env = {"ACE_VENV": str(tmp_path / "file" / "venv"), "ACE_HOME": str(tmp_path / "home")}
    assert "cannot be written" in one_line(bootstrap("run", env=env))


def test_an_unknown_goal_shows_the_usage(tmp_path: Path) -> None:
    done = bootstrap("everything", env={"ACE_HOME": str(tmp_path)})
    assert done.returncode == 2
    assert done.stderr == "usage: bootstrap.py [run|test]\n"


def test_unchanged_locks_install_nothing(
    module: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the network nor a package manager may be touched by a second start."""
    venv = tmp_path / "venv"
    (venv / "bin").mkdir(parents=True)
    monkeypatch.setattr(module, "VENV", venv)
    monkeypatch.setattr(module, "STAMP", venv / "stamp.json")
    monkeypatch.setattr(module, "usable", lambda: True)
    stamp = {layer: module.fingerprint(layer) for layer in ("product", "pod")}
    (venv / "stamp.json").write_text(module.json.dumps(stamp))
    forbidden = pytest.fail
    for name in ("create", "link_sources", "install_layer"):
        monkeypatch.setattr(module, name, lambda *_, name=name: forbidden(f"{name} was called"))
    module.install(("product", "pod"))


def test_a_changed_lock_installs_that_layer_again(
    module: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    venv = tmp_path / "venv"
    venv.mkdir()
    monkeypatch.setattr(module, "VENV", venv)
    monkeypatch.setattr(module, "STAMP", venv / "stamp.json")
    monkeypatch.setattr(module, "usable", lambda: True)
    monkeypatch.setattr(module, "has_pip", lambda: True)
    monkeypatch.setattr(module, "link_sources", lambda: None)
    (venv / "stamp.json").write_text(
        module.json.dumps({"product": "of an older lock", "pod": module.fingerprint("pod")})
    )
    installed: list[str] = []

    def install_layer(layer: str, _uv: str | None) -> bool:
        installed.append(layer)
        return True

    monkeypatch.setattr(module, "install_layer", install_layer)
    module.install(("product", "pod"))
    assert installed == ["product"]
    assert module.read_stamp()["product"] == module.fingerprint("product")


def test_the_local_model_may_be_missing_but_the_product_may_not(
    module: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    failed = subprocess.CompletedProcess([], 1, "", "ERROR: No matching distribution found for x\n")
    monkeypatch.setattr(module.subprocess, "run", lambda *_, **__: failed)
    assert module.install_layer("pod", None) is False
    assert "the local model is left out" in capsys.readouterr().out
    with pytest.raises(module.BootstrapError, match="No matching distribution found for x"):
        module.install_layer("product", None)


def test_an_environment_of_another_place_is_not_used(
    module: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copied .venv has the old path in all its scripts."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to(sys.executable)
    monkeypatch.setattr(module, "VENV", tmp_path)
    assert module.usable() is False
