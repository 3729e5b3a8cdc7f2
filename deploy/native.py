#!/usr/bin/env python3
"""`make native`: translates the modules every request passes to C with mypyc and compiles them into the environment.

Needs a C compiler and the headers of Python; `--probe` says whether they are here. What becomes of the result stands in
`gateway.native`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import msgspec  # noqa: E402

from gateway import native  # noqa: E402 - found through the line above

MODULES = (
    "gateway.events.segment",
    "gateway.events.spool",
    "gateway.identity.lookup",
    "gateway.limits.leases",
    "gateway.limits.rates",
    "gateway.limits.table",
    "gateway.pipeline.answer",
    "gateway.pipeline.context",
    "gateway.pipeline.decisions",
    "gateway.pipeline.door",
    "gateway.pipeline.engine",
    "gateway.pipeline.plan",
    "gateway.pipeline.relay",
    "gateway.pipeline.settle",
    "gateway.protocols.chat_messages",
    "gateway.protocols.control_fields",
    "gateway.protocols.dialects",
    "gateway.protocols.errors",
    "gateway.protocols.inference",
    "gateway.protocols.json_body",
    "gateway.protocols.openai_chat",
    "gateway.protocols.openai_completions",
    "gateway.protocols.openai_embeddings",
    "gateway.protocols.openai_fields",
    "gateway.protocols.openai_objects",
    "gateway.protocols.sse",
    "gateway.server.admission",
    "gateway.server.asgi_cycle",
    "gateway.server.asgi_door",
    "gateway.server.exchange",
    "gateway.server.headers",
    "gateway.server.http_exchange",
    "gateway.server.protocol",
    "gateway.upstream.connection",
    "gateway.upstream.dispatch",
    "gateway.upstream.pool",
    "gateway.upstream.request_head",
    "policies.skills.circuit_breaker.runtime",
    "telemetry.pricing",
)
"""Together, because calls between them are C calls. Types that only describe data (msgspec) stay as they are."""

SETUP = """
from mypyc.build import mypycify
from setuptools import setup
options = ["--config-file=", "--ignore-missing-imports", "--follow-imports=silent"]
setup(name="ace-native", ext_modules=mypycify([*options, *{sources!r}], opt_level="3"))
"""


def main(arguments: list[str]) -> int:
    lacking = what_is_lacking()
    if lacking:
        print(f"native: {lacking}", file=sys.stderr)
        return 1
    if "--probe" in arguments:
        return 0
    with tempfile.TemporaryDirectory(prefix="ace-native-") as name:
        folder = Path(name)
        print(f"native: compiling {len(MODULES)} modules, about a minute", flush=True)
        problem = build(folder)
        if problem:
            print(f"native: mypyc failed\n{problem}", file=sys.stderr)
            return 1
        install(folder)
    print(f"native: the gateway runs compiled from its next start ({native.FOLDER})")
    return 0


def what_is_lacking() -> str:
    if shutil.which(os.environ.get("CC") or "cc") is None:
        return "a C compiler is needed (Debian: apt-get install gcc libc6-dev)"
    if not (Path(sysconfig.get_path("include")) / "Python.h").exists():
        return "the headers of Python are needed (Debian: apt-get install python3-dev)"
    return ""


def build(folder: Path) -> str:
    """Compile in a copy, so that the working tree stays as it is. Returns what went wrong."""
    for package in native.PACKAGES:
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("*.pyc"))
    sources = [name.replace(".", "/") + ".py" for name in MODULES]
    (folder / "setup.py").write_text(SETUP.format(sources=sources))
    done = subprocess.run(
        [sys.executable, "setup.py", "--quiet", "build_ext", "--build-lib", "lib"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    return "" if done.returncode == 0 else (done.stdout + done.stderr)[-4000:]


def install(folder: Path) -> None:
    """Replace the build in the environment; a gateway that starts meanwhile finds the old one, none, or the new one."""
    fresh = native.FOLDER.with_name(native.FOLDER.name + ".new")
    shutil.rmtree(fresh, ignore_errors=True)
    shutil.copytree(folder / "lib", fresh)
    files = {module_of(path, fresh): str(path.relative_to(fresh)) for path in fresh.rglob("*.so")}
    made = native.Build(native.tag(), native.digest(folder), files)
    (fresh / native.MANIFEST).write_bytes(msgspec.json.encode(made))
    shutil.rmtree(native.FOLDER, ignore_errors=True)
    fresh.rename(native.FOLDER)


def module_of(file: Path, folder: Path) -> str:
    relative = file.relative_to(folder)
    return ".".join([*relative.parent.parts, relative.name.partition(".")[0]])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
