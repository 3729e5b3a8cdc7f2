from __future__ import annotations

import pytest
from django.db import DatabaseError, transaction

from console.actor import SYSTEM
from console.audit.models import AuditEntry
from console.audit.selectors import entries
from console.audit.services import Change, Subject, entry_create
from tests.console.core_support import make_tenant


@pytest.mark.django_db(transaction=True)
def test_a_line_without_a_transaction_is_a_fault() -> None:
    with pytest.raises(RuntimeError, match="inside the change's transaction"):
        entry_create(SYSTEM, "x", Subject("x", "1"), Change())
    assert not AuditEntry.objects.exists()


@pytest.mark.django_db
def test_a_change_that_fails_leaves_no_line() -> None:
    with pytest.raises(RuntimeError):
        _fail_after_a_line()
    assert not AuditEntry.objects.exists()


@transaction.atomic
def _fail_after_a_line() -> None:
    entry_create(SYSTEM, "x", Subject("x", "1"), Change())
    raise RuntimeError


@pytest.mark.django_db
def test_lines_are_found_by_object_newest_first() -> None:
    one, two = make_tenant("One"), make_tenant("Two")
    assert [line.object_id for line in entries("tenant")] == [two.id, one.id]
    assert [line.object_id for line in entries("tenant", one.id)] == [one.id]


@pytest.mark.django_db
def test_the_database_refuses_to_alter_or_drop_a_line() -> None:
    make_tenant()
    for act in (
        lambda: AuditEntry.objects.update(actor="x"),
        lambda: AuditEntry.objects.all().delete(),
    ):
        with pytest.raises(DatabaseError, match="never changed"), transaction.atomic():
            act()
