"""The database itself refuses to change or remove what was billed."""

from django.db import migrations

FORWARD = """
CREATE FUNCTION telemetry_ledger_is_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'the ledger is append-only: % is refused', TG_OP
    USING ERRCODE = 'restrict_violation', HINT = 'Correct it with a new entry.';
END $$;
CREATE TRIGGER ledger_is_append_only
  BEFORE UPDATE OR DELETE OR TRUNCATE ON telemetry_ledgerentry
  FOR EACH STATEMENT EXECUTE FUNCTION telemetry_ledger_is_append_only();
"""
BACKWARD = """
DROP TRIGGER ledger_is_append_only ON telemetry_ledgerentry;
DROP FUNCTION telemetry_ledger_is_append_only();
"""


class Migration(migrations.Migration):
    dependencies = [("telemetry", "0001_initial")]
    operations = [migrations.RunSQL(FORWARD, BACKWARD)]
