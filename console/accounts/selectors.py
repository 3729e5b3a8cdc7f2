"""Looking up who knocks."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from django.conf import settings
from django.db.models import Q
from django.utils import timezone

from console.accounts.models import ManagementToken, User
from policies.schema.credentials import checksum_ok, digest

_USE_RESOLUTION: Final = timedelta(minutes=1)


def token_by_text(text: str) -> ManagementToken | None:
    """The live token, if the text is one. A mistyped one is turned away without touching the database."""
    if not text.startswith("ace_mgmt_") or not checksum_ok(text):
        return None
    now = timezone.now()
    live = Q(revoked_at=None) & (Q(expires_at=None) | Q(expires_at__gt=now))
    wanted = digest(settings.ACE_KEY_PEPPER, text)
    return ManagementToken.objects.filter(live, digest=wanted).first()


def token_use_note(token: ManagementToken) -> None:
    """Once a minute is enough to see whether a token is still in use, and spares a write for each request."""
    now = timezone.now()
    stale = Q(last_used_at=None) | Q(last_used_at__lt=now - _USE_RESOLUTION)
    ManagementToken.objects.filter(stale, pk=token.pk).update(last_used_at=now)


def first_run_needed() -> bool:
    """No account yet: the console shows the set-up page."""
    return not User.objects.exists()
