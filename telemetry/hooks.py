"""What telemetry asks of the console without knowing it: the console's apps register themselves here.

Telemetry stands below the console and must not import it (an import contract says so). Three questions
can only be answered above: whom a budget binds, who may watch, and how the live page is drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

from telemetry.state import Access, LiveFrame


class BudgetSubject(NamedTuple):
    """Whose spending counts against a budget."""

    scope: Literal["tenant", "key"]
    id: str


BudgetLookup = Callable[[str], BudgetSubject | None]
"""Budget id -> its subject; None: there is no such budget."""


LiveAccess = Callable[[Any], Access]
"""User -> what they may watch. Raises PermissionDenied: nothing at all."""

LiveRenderer = Callable[[LiveFrame], Mapping[str, str]]
"""What to draw -> inner HTML of each region of the page by element id. Once a tick and scope."""


class UnregisteredError(LookupError):
    """The console app that answers this question is not installed."""


class Hooks:
    """Filled from `AppConfig.ready`, read afterwards."""

    def __init__(self) -> None:
        self._answers: dict[str, Any] = {}

    def register_budget_lookup(self, answer: BudgetLookup) -> None:
        self._answers["budget_lookup"] = answer

    def register_live(self, access: LiveAccess, renderer: LiveRenderer) -> None:
        self._answers |= {"live_access": access, "live_renderer": renderer}

    @property
    def budget_lookup(self) -> BudgetLookup:
        answer: BudgetLookup = self._get("budget_lookup")
        return answer

    @property
    def live_access(self) -> LiveAccess:
        answer: LiveAccess = self._get("live_access")
        return answer

    @property
    def live_renderer(self) -> LiveRenderer:
        answer: LiveRenderer = self._get("live_renderer")
        return answer

    def _get(self, name: str) -> Any:
        try:
            return self._answers[name]
        except KeyError:
            raise UnregisteredError(name) from None


hooks = Hooks()
