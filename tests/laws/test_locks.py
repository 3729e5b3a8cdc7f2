"""Advisory locks live in one number space: a number used twice makes strangers wait for each other."""

from __future__ import annotations

import re
from pathlib import Path

from console.locks import AdvisoryLock
from telemetry.ingest import LOCK

ROOT = Path(__file__).parents[2]


def test_no_two_purposes_share_a_lock() -> None:
    numbers = [*AdvisoryLock, LOCK]
    assert len(set(numbers)) == len(numbers)


def test_nobody_takes_a_lock_by_a_number_of_their_own() -> None:
    takes = re.compile(r"pg_(?:try_)?advisory\w*\(%s\)\", \[([^\]]+)\]")
    known = {"AdvisoryLock.FIRST_RUN", "AdvisoryLock.PUBLISH", "LOCK"}
    for folder in ("console", "telemetry", "gateway", "policies"):
        for path in (ROOT / folder).rglob("*.py"):
            assert set(takes.findall(path.read_text())) <= known, path
