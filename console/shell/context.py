"""What every page needs around its content, as the template variable `shell`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from django.http import HttpRequest
from django.utils.functional import SimpleLazyObject

from console.accounts.permissions import PERMISSIONS, can
from console.shell import navigation, policy_status
from console.ui import theme as theming


@dataclass(frozen=True)
class Shell:
    """Lazy where it costs a query: a fragment that draws no sidebar asks nothing."""

    request: HttpRequest = field(repr=False)

    @cached_property
    def theme(self) -> str:
        return theming.theme_of(self.request)

    @cached_property
    def theme_label(self) -> str:
        return theming.LABELS[self.theme].lower()

    @cached_property
    def themes(self) -> Sequence[theming.Choice]:
        return theming.choices(self.theme)

    @cached_property
    def role_label(self) -> str:
        user: Any = self.request.user
        return user.get_role_display().lower() if user.is_authenticated else "nobody"

    @cached_property
    def navigation(self) -> list[navigation.Group]:
        return navigation.groups_for(self.request)

    @cached_property
    def policy(self) -> policy_status.PolicyStatus:
        signed_in = self.request.user.is_authenticated
        return policy_status.policy_status() if signed_in else policy_status.signed_out()

    @cached_property
    def may(self) -> dict[str, bool]:
        """Every permission of this person, by its name with `_` for the dot: `shell.may.keys_write`."""
        return {action.replace(".", "_"): can(self.request, action) for action in PERMISSIONS}


@dataclass(frozen=True, slots=True)
class PlainShell:
    """For error pages: needs nothing that may be what has failed."""

    theme: str


def plain_shell(request: HttpRequest) -> PlainShell:
    return PlainShell(theming.theme_of(request))


def shell(request: HttpRequest) -> dict[str, Any]:
    """Context processor."""
    return {"shell": SimpleLazyObject(lambda: Shell(request))}
