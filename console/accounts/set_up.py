"""The one-time token of the first run: who can read the server's files may make the first admin, nobody else."""

from __future__ import annotations

import hmac
import os
import secrets
from pathlib import Path

from django.conf import settings

from console.accounts.models import User
from console.accounts.services import first_admin_create
from console.errors import InputError


def token_file() -> Path:
    return Path(settings.ACE_HOME) / "secrets" / "setup_token"


def token_ensure() -> str:
    """The token, made on first call. Only the owner of the process may read its file."""
    path = token_file()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return _read()
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(secrets.token_urlsafe(24) + "\n")
    return _read()


def set_up(token: str, username: str, password: str) -> User:
    """The first admin. Raises InputError for a wrong token or a weak password, Conflict once an account exists."""
    expected = _read()
    # An empty file must not make the empty token right.
    if not expected or not hmac.compare_digest(expected.encode(), token.strip().encode()):
        raise InputError.at("/token", "This is not the token the server printed.", "wrong_token")
    user = first_admin_create(username, password)
    token_file().unlink(missing_ok=True)
    return user


def _read() -> str:
    try:
        return token_file().read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""
