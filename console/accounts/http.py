"""A request of somebody who has signed in."""

from __future__ import annotations

from django.http import HttpRequest

from console.accounts.models import User


class AuthenticatedHttpRequest(HttpRequest):
    """Views behind `permission_required` take it instead of casting `user`."""

    user: User
