"""The places a policy document can belong to: the installation, a tenant, a key, a model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal, cast

from django.db.models import Q, QuerySet

from console.errors import Missing
from console.keys.models import ApiKey
from console.providers.models import Pool
from console.studio.models import PolicyDraft
from console.tenants.models import Tenant

Kind = Literal["global", "tenants", "keys", "models"]
KIND_WORDS: Final[dict[Kind, str]] = {
    "global": "Global",
    "tenants": "Tenant",
    "keys": "Key",
    "models": "Model",
}
PICK_MAX: Final = 50


@dataclass(frozen=True, slots=True)
class Scope:
    """`name` is empty where only the kind is chosen, so that the page asks which one."""

    kind: Kind
    name: str = ""
    label: str = ""
    wider: tuple[str, ...] = ()
    """Scopes that speak before this one, widest first."""

    @property
    def path(self) -> str:
        return self.kind if not self.name else f"{self.kind}/{self.name}"

    @property
    def chosen(self) -> bool:
        return self.kind == "global" or bool(self.name)

    @property
    def chain(self) -> tuple[str, ...]:
        return (*self.wider, self.path)


@dataclass(frozen=True, slots=True)
class Choice:
    path: str
    label: str
    detail: str
    fields: int
    """How many fields its draft sets."""


def scope_find(text: str) -> Scope:
    """From `global`, `tenants/<id>`, `keys/<id>`, `models/<name>`, or a kind alone. Raises Missing."""
    kind, _, name = text.replace("\0", "").partition("/")
    if kind not in KIND_WORDS or (kind == "global" and name):
        raise Missing("There is no such scope.")
    if kind == "global":
        return Scope("global", label="Global")
    return _named(cast(Kind, kind), name) if name else Scope(cast(Kind, kind))


def _named(kind: Kind, name: str) -> Scope:
    if kind == "tenants":
        tenant = Tenant.objects.filter(pk=name).first()
        if tenant:
            return Scope(kind, name, tenant.name, ("global",))
    elif kind == "keys":
        key = ApiKey.objects.select_related("tenant").filter(pk=name).first()
        if key:
            wider = ("global", f"tenants/{key.tenant_id}")
            return Scope(kind, name, f"{key.name} of {key.tenant.name}", wider)
    elif Pool.objects.filter(model=name).exists():
        return Scope(kind, name, name, ("global",))
    raise Missing("There is no such scope.")


def scope_words(path: str) -> str:
    """`tenants/ten_1` as `tenant Acme`; what is gone keeps its id."""
    try:
        scope = scope_find(path)
    except Missing:
        return path
    return "global" if scope.kind == "global" else f"{KIND_WORDS[scope.kind].lower()} {scope.label}"


def choices(kind: Kind, search: str) -> list[Choice]:
    """At most 50 to pick from, those first that set something."""
    drafts = {
        draft.scope: sum(len(fields) for fields in draft.skills.values())
        for draft in PolicyDraft.objects.filter(scope__startswith=f"{kind}/")
    }
    found = [
        Choice(path, label, detail, drafts.get(path, 0))
        for path, label, detail in _all(kind, search, list(drafts))
    ]
    return sorted(found, key=lambda choice: -choice.fields)[:PICK_MAX]


def _all(kind: Kind, search: str, first: list[str]) -> list[tuple[str, str, str]]:
    ids = [path.partition("/")[2] for path in first]
    if kind == "tenants":
        tenants = _page(Tenant.objects.filter(Q(name__icontains=search) | Q(pk=search)), ids)
        return [(f"tenants/{each.id}", each.name, each.id) for each in tenants]
    if kind == "keys":
        words = Q(name__icontains=search) | Q(tenant__name__icontains=search) | Q(pk=search)
        live = ApiKey.objects.select_related("tenant").filter(words, revoked_at=None)
        return [(f"keys/{each.id}", each.name, each.tenant.name) for each in _page(live, ids)]
    names = Pool.objects.filter(model__icontains=search).order_by("model")
    found = names.values_list("model", flat=True).distinct()[:PICK_MAX]
    return [(f"models/{name}", name, "") for name in found]


def _page(rows: QuerySet[Any], first: list[str]) -> list[Any]:
    """Those with a draft must not fall behind the end of the page."""
    setting = list(rows.filter(pk__in=first)[:PICK_MAX])
    rest = rows.exclude(pk__in=first).order_by("name")[: PICK_MAX - len(setting)]
    return [*setting, *rest]
