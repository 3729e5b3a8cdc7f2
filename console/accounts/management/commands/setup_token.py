"""`manage.py setup_token`: prints the token that the first-run page asks for."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from console.accounts.selectors import first_run_needed
from console.accounts.set_up import token_ensure


class Command(BaseCommand):
    help = "Prints the one-time token with which the first admin is created at /set-up/."

    def handle(self, *args: Any, **options: Any) -> None:
        if not first_run_needed():
            raise CommandError("An account exists already; the set-up page is closed.")
        self.stdout.write(token_ensure())
