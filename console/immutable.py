"""Rows that the database itself refuses to change, whoever asks and by whatever road."""

from __future__ import annotations

from collections.abc import Sequence

from django.db.migrations import RunSQL

_FUNCTION = """
CREATE OR REPLACE FUNCTION ace_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION '% rows are never changed (%)', TG_TABLE_NAME, TG_OP USING ERRCODE = 'restrict_violation';
END $$;
"""


def forbid(table: str, events: Sequence[str] = ("UPDATE", "DELETE")) -> RunSQL:
    """A migration operation that lets rows of `table` be added and nothing else."""
    name = f"{table}_immutable"
    return RunSQL(
        f"{_FUNCTION}CREATE TRIGGER {name} BEFORE {' OR '.join(events)} ON {table} "
        "FOR EACH ROW EXECUTE FUNCTION ace_refuse_change();",
        f"DROP TRIGGER IF EXISTS {name} ON {table};",
    )
