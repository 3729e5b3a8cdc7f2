"""Work of the accounts app that waits for the beat."""

from __future__ import annotations

from celery import shared_task

from console.accounts.services import leftovers_delete


@shared_task
def sweep() -> None:
    leftovers_delete()
