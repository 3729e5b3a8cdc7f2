"""Recent requests, narrowed as a page asks, for those who may see them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from django.db.models import Q, QuerySet

from console.accounts.permissions import visible_tenants
from console.actor import Actor
from console.providers.models import Endpoint
from telemetry.models import RequestRecord

PAGE: Final = 50
ENDINGS: Final = {
    "ok": Q(outcome="ok"),
    "refused": Q(outcome="refused"),
    "failed": ~Q(outcome__in=("ok", "refused")),
    "moved": Q(decisions__eliminated__0__isnull=False) & ~Q(outcome="refused"),
}


@dataclass(frozen=True, slots=True)
class Asked:
    """Filters of the list; empty: all."""

    search: str = ""
    ending: str = ""
    tenant: str = ""
    key: str = ""
    model: str = ""
    before: int | None = None
    """Database id: rows older than it."""

    @property
    def narrowed(self) -> bool:
        return bool(self.search or self.ending or self.tenant or self.key or self.model)


@dataclass(frozen=True, slots=True)
class Recent:
    rows: list[RequestRecord]
    older: int | None
    """`before` of the next page; None: this is the end of what is kept."""


def requests_recent(actor: Actor, asked: Asked) -> Recent:
    """Newest first. Paged by position, so that a full table costs no more than an empty one."""
    found = _narrowed(_visible(actor), asked)
    if asked.before is not None:
        found = found.filter(pk__lt=asked.before)
    rows = list(found.order_by("-pk")[: PAGE + 1])
    more = len(rows) > PAGE
    return Recent(rows[:PAGE], rows[PAGE - 1].pk if more else None)


def requests_exist(actor: Actor) -> bool:
    return _visible(actor).exists()


def _visible(actor: Actor) -> QuerySet[RequestRecord]:
    ids = visible_tenants(actor, "requests.read")
    rows = RequestRecord.objects.all()
    return rows if ids is None else rows.filter(tenant_id__in=sorted(ids))


def _narrowed(rows: QuerySet[RequestRecord], asked: Asked) -> QuerySet[RequestRecord]:
    if asked.search:
        rows = rows.filter(Q(request_id=asked.search) | Q(code=asked.search))
    if asked.ending in ENDINGS:
        rows = rows.filter(ENDINGS[asked.ending])
    for name, value in (("tenant_id", asked.tenant), ("key_id", asked.key), ("model", asked.model)):
        if value:
            rows = rows.filter(**{name: value})
    return rows


def endpoints_by_id(ids: Iterable[str]) -> dict[str, Endpoint]:
    """Those that still exist; a request may name one that is gone."""
    return {
        each.id: each for each in Endpoint.objects.select_related("pool").filter(pk__in=set(ids))
    }
