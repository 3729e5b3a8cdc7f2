"""What every test may rely on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from django.db.backends.postgresql.operations import DatabaseOperations

LEDGER = "telemetry_ledgerentry"


@pytest.fixture(autouse=True, scope="session")
def _ledger_can_be_emptied_between_tests() -> Any:
    """Transactional tests empty every table; the ledger's own trigger would refuse, as it should."""
    operations: Any = DatabaseOperations
    flush = operations.execute_sql_flush

    def emptied(self: Any, statements: Sequence[str]) -> None:
        truncates = any(LEDGER in statement for statement in statements)
        off, on = (f'ALTER TABLE "{LEDGER}" {verb} TRIGGER USER;' for verb in ("DISABLE", "ENABLE"))
        flush(self, [off, *statements, on] if truncates else statements)

    operations.execute_sql_flush = emptied
    yield
    operations.execute_sql_flush = flush
