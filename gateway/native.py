"""The compiled hot path: the same modules, translated to C by mypyc (`make native`), if such a build is there.

A build is taken whole or not at all: only for this interpreter, and only while every source is the one it was made
from. Without it, or with ACE_NATIVE=off, the gateway runs as plain Python and behaves the same.
"""

from __future__ import annotations

import hashlib
import importlib.util
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from importlib.machinery import ExtensionFileLoader, ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Final

import msgspec

ROOT: Final = Path(__file__).resolve().parent.parent
FOLDER: Final = Path(sys.prefix) / "ace-native"
MANIFEST: Final = "manifest.json"
PACKAGES: Final = ("gateway", "policies", "telemetry")


class Build(msgspec.Struct):
    """The manifest."""

    tag: str
    sources: str
    """`digest()` of what it was made of."""
    files: dict[str, str]
    """Module -> file in the build's folder."""


def tag() -> str:
    """What a compiled module fits: interpreter, version, platform."""
    return str(sysconfig.get_config_var("SOABI"))


def digest(root: Path = ROOT) -> str:
    """SHA-256 over all sources of the data plane: a compiled module has constants and layouts of others inside it."""
    found = hashlib.sha256()
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            found.update(b"%s\0%s\0" % (str(path.relative_to(root)).encode(), path.read_bytes()))
    return found.hexdigest()


class Finder:
    """Finds the modules of one build before the usual finders see their sources."""

    def __init__(self, files: Mapping[str, Path]) -> None:
        self._files = files

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None, /
    ) -> ModuleSpec | None:
        file = self._files.get(name)
        if file is None:
            return None
        loader = ExtensionFileLoader(name, str(file))
        return importlib.util.spec_from_file_location(name, file, loader=loader)


def enable(folder: Path = FOLDER) -> str:
    """Let the build in `folder` serve this process. Returns "" or, in a few words, why it does not.

    Called before anything it replaces is imported.
    """
    try:
        build = msgspec.json.decode((folder / MANIFEST).read_bytes(), type=Build)
    except (OSError, msgspec.MsgspecError):
        return "not built"
    if build.tag != tag():
        return "built for another interpreter"
    if build.sources != digest():
        return "built from other sources"
    late = sorted(sys.modules.keys() & build.files)
    if late:
        return f"{late[0]} was imported before it"
    sys.meta_path.insert(0, Finder({name: folder / file for name, file in build.files.items()}))
    return ""
