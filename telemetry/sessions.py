"""Whether those who watch may still watch: asked for all sockets at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from django.contrib.auth import HASH_SESSION_KEY, SESSION_KEY, get_user_model
from django.contrib.sessions.models import Session
from django.core.exceptions import PermissionDenied
from django.utils import timezone
from django.utils.crypto import constant_time_compare

from telemetry.hooks import hooks
from telemetry.state import Access

SIGNED_OUT: Final = 4401
FORBIDDEN: Final = 4403

Verdict = Access | int
"""What one may watch, or the code with which the socket is closed."""


def living_sessions(wanted: Mapping[str, str]) -> dict[str, Verdict]:
    """Session key -> verdict. A session that ended, or belongs to somebody else now, is signed out.

    Raises django.db.Error.
    """
    now = timezone.now()
    sessions = Session.objects.filter(session_key__in=list(wanted), expire_date__gt=now)
    found = {session.session_key: session.get_decoded() for session in sessions}
    users = _users(set(wanted.values()))
    return {key: _verdict(found.get(key), users.get(user_id)) for key, user_id in wanted.items()}


def _users(ids: set[str]) -> dict[str, Any]:
    model: Any = get_user_model()
    return {str(user.pk): user for user in model.objects.filter(pk__in=ids, is_active=True)}


def _verdict(session: Mapping[str, Any] | None, user: Any) -> Verdict:
    if session is None or user is None or str(session.get(SESSION_KEY)) != str(user.pk):
        return SIGNED_OUT
    digest = str(session.get(HASH_SESSION_KEY, ""))
    if not constant_time_compare(digest, user.get_session_auth_hash()):
        return SIGNED_OUT  # the password was changed
    try:
        return hooks.live_access(user)
    except PermissionDenied:
        return FORBIDDEN
