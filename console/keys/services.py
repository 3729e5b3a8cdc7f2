"""Issuing, rotating and revoking API keys."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any, Final

from django.conf import settings
from django.db import IntegrityError, transaction
from django.utils import timezone
from pydantic import AwareDatetime, Field

from console.actor import Actor
from console.audit.services import Change, Subject, entry_create
from console.budgets.services import BudgetSpec, Owner, budget_insert
from console.changes import announce
from console.errors import Conflict, InputError, Missing
from console.keys.feed import revocations_announce
from console.keys.models import ApiKey, KeyDigest
from console.keys.selectors import key_state
from console.specs import Count, Name, Note, Spec
from console.tenants.models import Tenant
from policies.schema.credentials import digest, mint
from policies.schema.units import Identifier, ModelName

MAX_GRACE_S: Final = 30 * 24 * 3600
_PREFIX_CHARS: Final = 12

Models = Annotated[tuple[ModelName, ...], Field(max_length=200)]


class KeyLimits(Spec):
    """None is unlimited; 0 refuses everything."""

    requests_per_minute: Count | None = None
    tokens_per_minute: Count | None = None
    concurrency: Count | None = None


class KeySpec(Spec):
    tenant: Identifier
    name: Name
    models: Models | None = None
    """None: every model; empty: none."""
    budgets: Annotated[tuple[BudgetSpec, ...], Field(max_length=20)] = ()
    rate_limits: KeyLimits = KeyLimits()
    expires_at: AwareDatetime | None = None


class KeyPatch(Spec):
    """Only what is sent is changed."""

    name: Name = ""
    models: Models | None = None
    rate_limits: KeyLimits = KeyLimits()
    expires_at: AwareDatetime | None = None


class RotateSpec(Spec):
    grace_s: Annotated[int, Field(ge=0, le=MAX_GRACE_S)] = 24 * 3600
    """Seconds for which the old secret goes on working; 0: it stops at once."""


class RevokeSpec(Spec):
    reason: Note = ""


@dataclass(frozen=True, slots=True)
class IssuedKey:
    key: ApiKey
    plain: str
    """Shown once; the database holds its digest only."""


@transaction.atomic
def key_create(actor: Actor, spec: KeySpec) -> IssuedKey:
    """The key and its budgets in one step. Raises InputError naming the field that does not fit."""
    tenant = Tenant.objects.filter(pk=spec.tenant).first()
    if tenant is None:
        raise InputError.at("/tenant", "There is no such tenant.", "unknown")
    key = ApiKey(tenant=tenant, name=spec.name, created_by=actor.name)
    _assign(key, spec)
    plain = _mint_into(key)
    _save(key)
    KeyDigest.objects.create(key=key, digest=_digest(plain))
    entry_create(actor, "key_create", _subject(key), Change(after=key_state(key)))
    for budget in spec.budgets:
        budget_insert(actor, budget, Owner(tenant.id, key.id))
    announce(actor, f"key {key.name} created")
    return IssuedKey(key, plain)


@transaction.atomic
def key_update(actor: Actor, key_id: str, patch: KeyPatch) -> ApiKey:
    key = _lock(key_id)
    before = key_state(key)
    _assign(key, patch)
    after = key_state(key)
    if after == before:
        return key
    _save(key)
    entry_create(actor, "key_update", _subject(key), Change(before, after))
    announce(actor, f"key {key.name} changed")
    return key


@transaction.atomic
def key_rotate(actor: Actor, key_id: str, grace_s: int) -> IssuedKey:
    """A new secret for the same key. The old one works for `grace_s` seconds more.

    Secrets of earlier rotations keep the shorter of their old end and the new one.
    """
    key = _lock(key_id)
    before = key_state(key)
    _retire(key, grace_s)
    plain = _mint_into(key)
    key.save(update_fields=["prefix", "last4"])
    KeyDigest.objects.create(key=key, digest=_digest(plain))
    change = Change(before, {**key_state(key), "grace_s": grace_s})
    entry_create(actor, "key_rotate", _subject(key), change)
    announce(actor, f"key {key.name} rotated")
    return IssuedKey(key, plain)


@transaction.atomic
def key_revoke(actor: Actor, key_id: str, reason: str = "") -> ApiKey:
    """For ever and at once: workers hear of it by the feed, before the snapshot. Doing it twice changes nothing."""
    key = ApiKey.objects.select_for_update(of=("self",)).filter(pk=key_id).first()
    if key is None:
        raise Missing("No such key.")
    if key.revoked_at is not None:
        return key
    before = key_state(key)
    key.revoked_at = timezone.now()
    key.save(update_fields=["revoked_at"])
    entry_create(actor, "key_revoke", _subject(key), Change(before, key_state(key), reason))
    _announce_after_commit(list(key.digests.values_list("digest", flat=True)))
    announce(actor, f"key {key.name} revoked")
    return key


def _retire(key: ApiKey, grace_s: int) -> None:
    now = timezone.now()
    end = now + timedelta(seconds=grace_s)
    open_ended = key.digests.filter(not_after=None) | key.digests.filter(not_after__gt=end)
    retired = list(open_ended.values_list("digest", flat=True))
    key.digests.filter(digest__in=retired).update(not_after=end)
    if grace_s == 0:
        _announce_after_commit(retired)


def _announce_after_commit(digests: list[str]) -> None:
    at_ms = int(timezone.now().timestamp() * 1000)
    transaction.on_commit(lambda: revocations_announce(digests, at_ms), robust=True)


def _assign(key: ApiKey, spec: KeySpec | KeyPatch) -> None:
    """Fields that were sent. A time that has passed is refused: it would be a revocation in disguise."""
    sent = spec.model_fields_set
    if "name" in sent:
        key.name = spec.name
    if "models" in sent:
        key.allowed_models = None if spec.models is None else sorted(set(spec.models))
    if "rate_limits" in sent:
        for name, value in spec.rate_limits.model_dump().items():
            setattr(key, name, value)
    if "expires_at" in sent:
        if spec.expires_at is not None and spec.expires_at <= timezone.now():
            raise InputError.at("/expires_at", "Must be in the future.", "past")
        key.expires_at = spec.expires_at


def _mint_into(key: ApiKey) -> str:
    plain = mint("live")
    key.prefix, key.last4 = plain[:_PREFIX_CHARS], plain[-4:]
    return plain


def _digest(plain: str) -> str:
    return digest(settings.ACE_KEY_PEPPER, plain)


def _lock(key_id: str) -> ApiKey:
    locked = ApiKey.objects.select_for_update(of=("self",)).select_related("tenant")
    key = locked.filter(pk=key_id).first()
    if key is None:
        raise Missing("No such key.")
    if key.revoked_at is not None:
        raise Conflict("This key is revoked for ever; create another one.", code="key_revoked")
    return key


def _subject(key: ApiKey) -> Subject:
    return Subject("key", key.id, key.tenant_id)


def _save(key: ApiKey) -> None:
    try:
        with transaction.atomic():
            key.save()
    except IntegrityError:
        raise InputError.at("/name", "The tenant has a key of this name.", "taken") from None


def key_digests(key: ApiKey) -> list[dict[str, Any]]:
    """Secrets of the key that still work, newest first, without anything that could be used."""
    now = timezone.now()
    return [
        {"created_at": found.created_at, "not_after": found.not_after}
        for found in key.digests.order_by("-id")
        if found.not_after is None or found.not_after > now
    ]
