"""Who may watch the live page, what it stands on, and its regions as HTML: for the page and the socket."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any, Final

import msgspec
import redis
from django.core.exceptions import PermissionDenied
from django.db import DatabaseError
from django.template.loader import render_to_string
from django.utils import timezone

from console import broker
from console.accounts.models import User
from console.accounts.permissions import reach
from console.errors import Unavailable
from console.fleet import charts, drawing
from console.keys.models import ApiKey
from console.studio.selectors import Worker, workers
from console.tenants.models import Tenant
from telemetry.live import restored_board
from telemetry.models import FindingRecord
from telemetry.selectors import recent_findings
from telemetry.state import LIVE_KEY, Access, LiveFrame, LiveState, decode_state

SECTIONS: Final = {"requests": "requests.read", "fleet": "fleet.read", "workers": "workers.read"}
"""Parts of the page beyond the figures, and the permission each needs."""

REGIONS: Final = {
    "live-connection": "",
    "live-banner": "",
    "live-figures": "",
    "live-cost": "",
    "live-models": "",
    "live-findings": "fleet",
    "live-gpus": "fleet",
    "live-workers": "workers",
    "live-requests": "requests",
}
"""Element id -> section it belongs to; empty: everybody who may open the page."""

LATE_MS: Final = 5_000
FINDINGS_FOR: Final = timedelta(hours=24)
_NAMES_KEPT: Final = 5_000


def access_of(user: Any) -> Access:
    """Raises PermissionDenied when the person may not watch at all."""
    if not isinstance(user, User):
        raise PermissionDenied("Sign in first.")
    role: Any = user.role
    far = reach(role, "live.read")
    if far is None:
        raise PermissionDenied("Your role may not watch live traffic.")
    tenants = None if far == "all" else frozenset(user.tenants.values_list("id", flat=True))
    sections = (name for name, action in SECTIONS.items() if reach(role, action) is not None)
    return Access(tenants, frozenset(sections))


def current_frame(access: Access) -> LiveFrame | None:
    """The newest state as this person may see it; None: no ingest process has ever said anything.

    Raises Unavailable when Redis cannot be asked.
    """
    try:
        raw: Any = broker.client().get(LIVE_KEY)
        state = decode_state(raw) if raw is not None else None
    except redis.RedisError:
        raise Unavailable(
            "Live figures cannot be read: Redis does not answer.", code="redis_unreachable"
        ) from None
    except msgspec.MsgspecError:
        state = None  # written by another version, which is about to be replaced
    if state is None:
        return None
    panel = state.panel
    if access.tenants is not None:
        panel = restored_board(state.at_ms, access.tenants).panel(state.at_ms // 1000)
    return LiveFrame(state, panel, access)


def render_regions(frame: LiveFrame) -> dict[str, str]:
    """Inner HTML of every region this person may see, by element id."""
    wanted = [
        name for name, section in REGIONS.items() if not section or section in frame.access.sections
    ]
    context = region_context(frame)
    return {
        name: render_to_string(f"console/fleet/live/{name.removeprefix('live-')}.html", context)
        for name in wanted
    }


def region_context(frame: LiveFrame) -> dict[str, Any]:
    state, series = frame.state, frame.panel.series
    tenant_name, key_name = _names(frame)
    return {
        "state": state,
        "access": frame.access,
        "paused": frame.paused,
        "late_s": _late_s(state),
        "figures": drawing.figures(frame),
        "quiet": state.at_ms - frame.panel.last_ms > drawing.QUIET_MS,
        "chart": charts.money_chart(series.billed_microusd, series.end_s),
        "models": drawing.model_rows(frame),
        "requests": drawing.request_rows(frame, tenant_name, key_name),
        "gpus": drawing.gpu_rows(frame),
        "many_nodes": len({gpu.node for gpu in state.gpus}) > 1,
        "findings": _findings() if "fleet" in frame.access.sections else None,
        "node_notes": drawing.node_notes(frame),
        "workers": _workers() if "workers" in frame.access.sections else None,
    }


def _late_s(state: LiveState) -> int:
    """Seconds by which the ingest process is behind; 0: it keeps up."""
    age_ms = int(timezone.now().timestamp() * 1000) - state.at_ms
    return age_ms // 1000 if age_ms > LATE_MS else 0


def _findings() -> list[FindingRecord] | None:
    """None: the database cannot be asked now."""
    try:
        return recent_findings(timezone.now() - FINDINGS_FOR)
    except DatabaseError:
        return None


def _workers() -> list[Worker] | None:
    """None: nobody can be asked now."""
    try:
        return workers()
    except (Unavailable, DatabaseError):
        return None


class _Names:
    """Names of ids, looked up once. While the database is away, an id is its own name."""

    def __init__(self, look_up: Callable[[list[str]], Iterable[tuple[str, str]]]) -> None:
        self._look_up = look_up
        self._known: dict[str, str] = {}

    def learn(self, ids: Iterable[str]) -> None:
        unknown = [each for each in dict.fromkeys(ids) if each not in self._known]
        if not unknown:
            return
        if len(self._known) > _NAMES_KEPT:
            self._known.clear()
        try:
            self._known |= dict(self._look_up(unknown))
        except DatabaseError:
            return

    def __call__(self, item: str) -> str:
        return self._known.get(item, item)


_tenant_names = _Names(
    lambda ids: Tenant.objects.filter(pk__in=ids).values_list("id", "name")  # renamed: next start
)
_key_names = _Names(lambda ids: ApiKey.objects.filter(pk__in=ids).values_list("id", "name"))


def _names(frame: LiveFrame) -> tuple[_Names, _Names]:
    _tenant_names.learn(item.tenant_id for item in frame.panel.recent)
    _key_names.learn(item.key_id for item in frame.panel.recent)
    return _tenant_names, _key_names
