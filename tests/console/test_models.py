from __future__ import annotations

import pytest
from django.db import DatabaseError, transaction

from console.audit.models import AuditEntry

pytestmark = pytest.mark.django_db


def test_the_database_refuses_to_alter_an_audit_line() -> None:
    entry = AuditEntry.objects.create(actor="system", role="system", action="x", object_type="x")
    with pytest.raises(DatabaseError, match="never changed"), transaction.atomic():
        AuditEntry.objects.filter(pk=entry.pk).update(action="y")
    with pytest.raises(DatabaseError, match="never changed"), transaction.atomic():
        entry.delete()
