"""The source files that the laws speak of, and the lists of exceptions that may only shrink.

`python -m tests.laws.sources` takes out of each list what has been put right since. `--initial`
writes the list of modules without a test mirror anew; it exists for the first release only.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
LAWS: Final = ROOT / "tests" / "laws"
PACKAGES: Final = ("console", "gateway", "policies", "telemetry")
UNMIRRORED: Final = LAWS / "unmirrored.txt"


def modules(*packages: str) -> Iterator[Path]:
    """Python files, relative to the root, without migrations."""
    for package in packages:
        for path in sorted((ROOT / package).rglob("*.py")):
            if "migrations" not in path.parts:
                yield path.relative_to(ROOT)


def unmirrored() -> set[str]:
    """Modules without `tests/<same folder>/test_<same name>*.py`."""
    return {str(path) for path in modules(*PACKAGES) if not _mirrored(path)}


def excused(listed: Path) -> set[str]:
    """Lines of a list of exceptions; `#` begins a comment."""
    if not listed.exists():
        return set()
    lines = (line.partition("#")[0].strip() for line in listed.read_text().splitlines())
    return {line for line in lines if line}


def _mirrored(path: Path) -> bool:
    if path.name == "__init__.py":
        return True
    stem = path.stem.strip("_")
    name = f"test_{stem}"
    mirrors = (ROOT / "tests" / path.parent).glob(f"{name}*.py")
    return any(mirror.stem == name or mirror.stem.startswith(f"{name}_") for mirror in mirrors)


def _prune(listed: Path, *, initial: bool) -> None:
    header = "# Modules without a test file of their own. This list may only shrink.\n"
    kept = unmirrored() if initial else excused(listed) & unmirrored()
    listed.write_text(header + "".join(f"{line}\n" for line in sorted(kept)))


if __name__ == "__main__":
    _prune(UNMIRRORED, initial="--initial" in sys.argv)
