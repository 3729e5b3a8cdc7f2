"""Who calls the management API: the bearer of a management token, and nobody else.

Sessions open pages, data-plane keys open models; neither opens this, so that a leaked one stays what it is.
"""

from __future__ import annotations

from typing import cast

from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from console.accounts.models import ManagementToken
from console.accounts.selectors import token_by_text, token_use_note
from console.actor import Actor, Role
from console.middleware import request_id_of

_REFUSAL = "The management token is missing or not valid."


class ManagementTokenAuthentication(BaseAuthentication):
    def authenticate(self, request: Request) -> tuple[Actor, ManagementToken] | None:
        """None without a header: the permission then asks for one. All other misfits sound the same."""
        header = request.META.get("HTTP_AUTHORIZATION")
        if not header:
            return None
        scheme, _, text = header.partition(" ")
        token = token_by_text(text) if scheme.lower() == "bearer" else None
        if token is None:
            raise AuthenticationFailed(_REFUSAL)
        token_use_note(token)
        return _actor(request, token), token

    def authenticate_header(self, request: Request) -> str:
        """Makes DRF answer 401 instead of 403."""
        return "Bearer"


def _actor(request: Request, token: ManagementToken) -> Actor:
    own = token.tenants.values_list("id", flat=True) if token.role == "developer" else ()
    return Actor(
        f"token:{token.id}",
        cast(Role, token.role),
        request_id_of(request._request),  # noqa: SLF001 - Django's own request carries our id
        request.META.get("REMOTE_ADDR", "") or "",
        frozenset(own),
    )
