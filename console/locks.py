"""Advisory locks of the database that the console takes. Numbers are shared by everything on one database.

`telemetry.ingest` holds a number of its own for as long as it lives; `tests/laws/test_locks.py` keeps all apart.
"""

from __future__ import annotations

from enum import IntEnum


class AdvisoryLock(IntEnum):
    """`ACE` and a number, as a 32-bit key."""

    FIRST_RUN = 0x41434511
    PUBLISH = 0x41434512
