"""The signed-in person behind a request."""

from __future__ import annotations

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest

from console.accounts.models import User


def user_of(request: HttpRequest) -> User:
    """Raises PermissionDenied where nobody has signed in; views behind a decorator never see that."""
    if isinstance(request.user, User):
        return request.user
    raise PermissionDenied("Sign in first.")
