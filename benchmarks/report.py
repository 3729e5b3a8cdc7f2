"""The rows a benchmark leaves behind, and how they are printed."""

from __future__ import annotations

import json
import platform
import subprocess
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

RESULTS: Final = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Row:
    """One figure beside one peer. `ratio` is value / peer_value; None: the peer could not be measured here."""

    name: str
    value: float
    unit: str
    peer: str
    peer_value: float | None
    ratio: float | None
    note: str = ""


def row(name: str, unit: str, value: float, peer: str, peer_value: float | None, note: str) -> Row:
    ratio = None if not peer_value else round(value / peer_value, 3)
    rounded = None if peer_value is None else round(peer_value, 1)
    return Row(name, round(value, 1), unit, peer, rounded, ratio, note)


def write_results(rows: list[Row]) -> Path:
    RESULTS.mkdir(parents=True, exist_ok=True)
    document = [asdict(r) for r in rows]
    (RESULTS / "latest.json").write_text(json.dumps(document, indent=1) + "\n")
    path = RESULTS / time.strftime("run-%Y%m%dT%H%M%SZ.json", time.gmtime())
    path.write_text(json.dumps({"machine": _machine(), "rows": document}, indent=1) + "\n")
    return path


def _machine() -> dict[str, str]:
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    )
    return {
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "compiler": platform.python_compiler(),
        "kernel": platform.release(),
        "processor": _processor(),
        "commit": commit.stdout.strip() or "unknown",
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def print_table(rows: list[Row]) -> None:
    print(f"\n{'figure':<34}{'ours':>12} {'unit':<14}{'peer':<14}{'peer value':>12}{'ratio':>9}")
    for r in rows:
        peer_value = "–" if r.peer_value is None else f"{r.peer_value:,.1f}"
        ratio = "–" if r.ratio is None else f"{r.ratio:.3f} ×"
        print(
            f"{r.name:<34}{r.value:>12,.1f} {r.unit:<14}{r.peer:<14}{peer_value:>12}{ratio:>9} {r.note}"
        )
