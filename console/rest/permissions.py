"""Each view says which action of the one table each method needs; what is not said is refused."""

from __future__ import annotations

from typing import Any

from rest_framework.exceptions import NotAuthenticated
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from console.accounts.permissions import visible_tenants
from console.actor import Actor


class ActionPermission(BasePermission):
    def has_permission(self, request: Request, view: Any) -> bool:
        """Raises NotAuthenticated without a token, PermissionDenied when the role may not."""
        if not isinstance(request.user, Actor):
            raise NotAuthenticated("Send a management token: `Authorization: Bearer ace_mgmt_…`.")
        if request.method not in view.http_method_names_allowed:
            return True  # DRF answers 405 next
        method = "GET" if request.method == "HEAD" else request.method
        action = view.actions.get(method)
        if action is None:
            return False
        visible_tenants(request.user, action)
        return True
