"""Who may do what: one table for pages, fragments and the management API. What is not in it is refused."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, Final, Literal, ParamSpec, cast
from urllib.parse import urlsplit

from django.contrib.auth.models import AnonymousUser
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponseBase

from console.accounts.models import User
from console.actor import Actor, Role
from console.middleware import request_id_of

Reach = Literal["all", "own"]
"""own: objects of the developer's tenants; every other object does not exist for them."""

P = ParamSpec("P")
View = Callable[Concatenate[HttpRequest, P], HttpResponseBase]

PERMISSIONS: Final[dict[str, dict[Role, Reach]]] = {
    "overview.read": {"admin": "all", "finance": "all", "developer": "own"},
    "docs.read": {"admin": "all", "finance": "all", "developer": "all"},
    "live.read": {"admin": "all", "finance": "all", "developer": "own"},
    "tenants.read": {"admin": "all", "finance": "all", "developer": "own"},
    "tenants.write": {"admin": "all"},
    "keys.read": {"admin": "all", "developer": "own"},
    "keys.write": {"admin": "all"},
    "budgets.read": {"admin": "all", "finance": "all", "developer": "own"},
    "budgets.write": {"admin": "all"},
    "pools.read": {"admin": "all"},
    "pools.write": {"admin": "all"},
    "prices.read": {"admin": "all", "finance": "all"},
    "policies.read": {"admin": "all"},
    "policies.write": {"admin": "all"},
    "publish": {"admin": "all"},
    "workers.read": {"admin": "all"},
    "usage.read": {"admin": "all", "finance": "all", "developer": "own"},
    "requests.read": {"admin": "all", "developer": "own"},
    "fleet.read": {"admin": "all"},
    "audit.read": {"admin": "all"},
    "accounts.write": {"admin": "all"},
}


def reach(role: Role, action: str) -> Reach | None:
    """How far `role` reaches with `action`; None: not at all. An action that is not in the table is a fault of ours."""
    if role == "system":
        return "all"
    return PERMISSIONS[action].get(role)


def visible_tenants(actor: Actor, action: str) -> frozenset[str] | None:
    """Tenant ids the actor may touch with `action`; None: all. Raises PermissionDenied when there is no such right."""
    match reach(actor.role, action):
        case "all":
            return None
        case "own":
            return actor.tenant_ids
        case _:
            raise PermissionDenied(f"Your role may not do this ({action}).")


def actor_of(request: HttpRequest) -> Actor:
    """The signed-in person as services know them. Raises PermissionDenied when nobody is signed in."""
    user = request.user
    if isinstance(user, AnonymousUser) or not isinstance(user, User):
        raise PermissionDenied("Sign in first.")
    own = user.tenants.values_list("id", flat=True) if user.role == "developer" else ()
    return Actor(
        f"user:{user.username}",
        cast(Role, user.role),
        request_id_of(request),
        request.META.get("REMOTE_ADDR", "") or "",
        frozenset(own),
    )


def permission_required(action: str) -> Callable[[View[P]], View[P]]:
    """A page for those whose role may do `action`: others get 403, strangers the sign-in page."""
    if action not in PERMISSIONS:
        raise KeyError(action)

    def decorate(view: View[P]) -> View[P]:
        @wraps(view)
        def guarded(request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
            if not request.user.is_authenticated:
                return redirect_to_login(_page_of(request))
            visible_tenants(actor_of(request), action)
            return view(request, *args, **kwargs)

        guarded.__dict__["ace_action"] = action  # read by the test that walks all routes
        return guarded

    return decorate


def _page_of(request: HttpRequest) -> str:
    """Where to come back to after signing in: a post comes back to the page its form was on, not to its address."""
    came_from = urlsplit(request.headers.get("Referer", ""))
    if request.method in {"GET", "HEAD"} or came_from.netloc != request.get_host():
        return request.get_full_path()
    return f"{came_from.path}?{came_from.query}" if came_from.query else came_from.path


def can(request: HttpRequest, action: str) -> bool:
    """For templates and views that show or hide a control; the service behind it is guarded on its own."""
    user: Any = request.user
    return bool(user.is_authenticated) and reach(user.role, action) is not None
