#!/usr/bin/env python3
"""Makes .venv from the lock files: `python3 deploy/bootstrap.py [run|test]`. Standard library only, no root.

Runs before anything is installed, so it must be readable by old interpreters too, if only to name the one that is
needed. A second start with unchanged locks installs nothing and needs no network. Every foreseeable trouble ends in
one line on stderr and exit code 1.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

NEEDED = (3, 11)
ROOT = Path(__file__).resolve().parent.parent
LOCKS = ROOT / "deploy" / "locks"
VENV = Path(os.environ.get("ACE_VENV") or ROOT / ".venv")
STAMP = VENV / "ace-installed.json"
MIB = 1 << 20
DISK_MIB = {"product": 450, "pod": 350, "test": 900}
"""Free space each layer needs while it is being installed, package cache included."""
HOME_MIB = 200
"""Free space of ACE_HOME: a fresh cluster takes about 60 MiB, its write-ahead log grows."""
LAYERS = {"run": ("product", "pod"), "test": ("product", "pod", "test")}
OPTIONAL = {"pod": "the local model is left out; everything else runs"}


class BootstrapError(Exception):
    """Its message is the one line that the person sees."""


def main(arguments: list[str]) -> int:
    goal = arguments[0] if arguments else "run"
    if goal not in LAYERS:
        print(f"usage: bootstrap.py [{'|'.join(LAYERS)}]", file=sys.stderr)
        return 2
    try:
        check_python()
        if goal == "run":
            check_home(home())
        with exclusive(VENV.with_name(VENV.name + ".lock")):
            install(LAYERS[goal])
    except BootstrapError as error:
        print(f"ace: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"ace: {error.strerror or error}: {error.filename or VENV}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


# ------------------------------------------------------------------------------------------------ checks


def check_python() -> None:
    if sys.version_info < NEEDED:
        have = ".".join(str(part) for part in sys.version_info[:3])
        raise BootstrapError(
            f"Python 3.11 or newer is needed, {sys.executable} is {have}; say `make PYTHON=python3.12 …`"
        )


def home() -> Path:
    return Path(os.environ.get("ACE_HOME") or ROOT / "var").expanduser()


def check_home(folder: Path) -> None:
    """Writing a file is the only honest test: permissions, read-only mounts and quotas all show here."""
    probe = folder / f".probe-{os.getpid()}"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        probe.write_bytes(b"\0" * MIB)
    except OSError as error:
        raise BootstrapError(f"ACE_HOME {folder} cannot be written: {error.strerror}") from None
    finally:
        with contextlib.suppress(OSError):
            probe.unlink()
    if not (folder / "postgres" / "PG_VERSION").exists():
        check_space(folder, HOME_MIB, "ACE_HOME")


def check_space(folder: Path, needed_mib: int, what: str) -> None:
    free_mib = shutil.disk_usage(folder).free // MIB
    if free_mib < needed_mib:
        raise BootstrapError(
            f"{what} {folder} has {free_mib} MiB free, {needed_mib} MiB are needed"
        )


@contextlib.contextmanager
def exclusive(lock: Path):  # type: ignore[no-untyped-def]  # a Generator type would cost an import of 10 ms
    """Two `make` at once must not install into one folder."""
    try:
        handle = lock.open("w")
    except OSError as error:
        raise BootstrapError(f"{lock.parent} cannot be written: {error.strerror}") from None
    with handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            say("waiting for another set-up of the same folder")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


# ----------------------------------------------------------------------------------------------- install


def install(layers: tuple[str, ...]) -> None:
    stamp = read_stamp()
    if not usable():
        stamp = {}
    missing = [layer for layer in layers if stamp.get(layer) != fingerprint(layer)]
    if not missing:
        return
    uv = shutil.which("uv")
    check_space(VENV.parent, sum(DISK_MIB[layer] for layer in missing), "the folder")
    if not usable():
        create(uv)
    if uv is None and not has_pip():
        raise BootstrapError(
            f"{VENV} has no pip and uv is not installed; remove the folder and start again"
        )
    link_sources()
    for layer in missing:
        if install_layer(layer, uv):
            stamp[layer] = fingerprint(layer)
            STAMP.write_text(json.dumps(stamp, indent=1) + "\n")


def fingerprint(layer: str) -> str:
    """Of the lock file and of the interpreter: either one changed means install again."""
    text = (LOCKS / f"{layer}.txt").read_bytes() + sys.version.encode() + str(VENV).encode()
    return hashlib.sha256(text).hexdigest()


def read_stamp() -> dict[str, str]:
    try:
        stamp = json.loads(STAMP.read_text())
    except (OSError, ValueError):
        return {}
    return stamp if isinstance(stamp, dict) else {}


def python() -> str:
    return str(VENV / "bin" / "python")


def usable() -> bool:
    """A folder copied from elsewhere, or made by an interpreter that is gone, is made anew."""
    code = "import sys; print(sys.prefix); print(sys.version)"
    try:
        shown = subprocess.run(
            [python(), "-c", code], capture_output=True, text=True, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return False
    prefix, _, version = shown.partition("\n")
    return Path(prefix).resolve() == VENV.resolve() and version.strip() == sys.version.strip()


def create(uv: str | None) -> None:
    say(f"making {VENV} with Python {sys.version.split()[0]}")
    shutil.rmtree(VENV, ignore_errors=True)
    command = [*creator(uv), str(VENV)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        shutil.rmtree(VENV, ignore_errors=True)
        raise BootstrapError(
            f"{VENV} could not be made: {telling_line(result.stdout + result.stderr)}"
        )


def creator(uv: str | None) -> list[str]:
    """Debian splits `venv` and `ensurepip` off the interpreter: that is the commonest fresh-machine trouble."""
    if uv is not None:
        return [uv, "venv", "--quiet", "--python", sys.executable]
    if has_module("venv") and has_module("ensurepip"):
        return [sys.executable, "-m", "venv"]
    if virtualenv := shutil.which("virtualenv"):
        return [virtualenv, "--quiet", "--python", sys.executable]
    if has_module("virtualenv"):
        return [sys.executable, "-m", "virtualenv", "--quiet"]
    package = f"python{sys.version_info[0]}.{sys.version_info[1]}-venv"
    raise BootstrapError(
        f"Python's venv module is missing; install it with: sudo apt-get install {package}"
    )


def has_module(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


def has_pip() -> bool:
    command = [python(), "-m", "pip", "--version"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def install_layer(layer: str, uv: str | None) -> bool:
    """True when installed, False when an optional layer cannot be; a needed one raises."""
    lock = LOCKS / f"{layer}.txt"
    wheels = lock.read_text().count("==")
    say(f"installing {wheels} locked packages ({layer})")
    started = time.monotonic()
    command = [*installer(uv), "--require-hashes", "--no-deps", "-r", str(lock)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode == 0:
        say(f"installed {layer} in {time.monotonic() - started:.0f} s")
        return True
    reason = telling_line(result.stderr + result.stdout)
    if layer in OPTIONAL:
        say(f"{layer} cannot be installed here ({reason}); {OPTIONAL[layer]}")
        return False
    raise BootstrapError(f"{layer} packages could not be installed: {reason}")


def installer(uv: str | None) -> list[str]:
    """Wheels only: building from source would need a compiler, and runs code of the package."""
    if uv is not None:
        return [uv, "pip", "install", "--quiet", "--python", python(), "--only-binary=:all:"]
    quiet = ["--quiet", "--disable-pip-version-check", "--no-input", "--progress-bar=off"]
    return [python(), "-m", "pip", "install", *quiet, "--only-binary=:all:"]


def link_sources() -> None:
    """The tree itself is importable from the environment, and `ace` is a command of it."""
    # Debian's default scheme points elsewhere (dist-packages); an environment has its own.
    purelib = sysconfig.get_path("purelib", "venv", {"base": str(VENV), "platbase": str(VENV)})
    Path(purelib, "ace-gateway.pth").write_text(f"{ROOT}\n")
    command = VENV / "bin" / "ace"
    command.write_text(
        f"#!{python()}\nimport sys\n\nfrom console.cli import main\n\nsys.exit(main())\n"
    )
    command.chmod(0o755)


def telling_line(output: str) -> str:
    """pip and uv say most in their last line that begins with an error word."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    for word in (
        "No space left",
        "Temporary failure in name",
        "Failed to establish",
        "ERROR",
        "error",
        "×",
    ):
        for line in lines:
            if word in line:
                return line[:300]
    return lines[-1][:300] if lines else "no reason given"


def say(line: str) -> None:
    print(f"ace: {line}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
