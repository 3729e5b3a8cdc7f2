"""Changing pools, endpoints, prices and provider keys."""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from django.conf import settings
from django.db import IntegrityError, transaction

from console.actor import Actor
from console.audit.services import Change, Subject, entry_create
from console.changes import announce
from console.errors import InputError, Missing, Problem
from console.providers import addresses, vault
from console.providers.models import Endpoint, Pool, PriceVersion, ProviderCredential
from console.providers.probe import Step, Target, probe
from console.providers.selectors import pool_state, pools_with_details, price_current
from console.providers.specs import EndpointSpec, PoolPatch, PoolSpec, PriceSpec

_FINGERPRINT_CHARS: Final = 8
MAX_TESTED: Final = 16
"""Endpoints tried in one test; more would keep a person waiting."""


@dataclass(frozen=True, slots=True)
class EndpointReport:
    base_url: str
    steps: list[Step]

    @property
    def passed(self) -> bool:
        return all(step.state == "passed" for step in self.steps)


@transaction.atomic
def pool_create(actor: Actor, spec: PoolSpec) -> Pool:
    """Pool, endpoints, price and credential in one step. Raises InputError naming each field that does not fit."""
    endpoints = endpoints_check(spec.endpoints)
    pool = Pool(
        name=spec.name,
        model=spec.model,
        upstream_model=spec.upstream_model or "",
        engine=spec.engine,
        max_output_tokens=spec.max_output_tokens,
    )
    _save(pool)
    _endpoints_set(pool, endpoints)
    if spec.price is not None:
        _price_add(actor, pool, spec.price)
    if spec.credential is not None:
        _credential_set(pool, spec.credential)
    pool = _reread(pool)
    entry_create(actor, "pool_create", _subject(pool), Change(after=pool_state(pool)))
    announce(actor, f"pool {pool.name} created")
    return pool


@transaction.atomic
def pool_update(actor: Actor, pool_id: str, patch: PoolPatch) -> Pool:
    """Raises Missing for an unknown pool. An endpoint whose address stays keeps its id, and with it its history."""
    pool = _lock(pool_id)
    before = pool_state(pool)
    sent = patch.model_fields_set
    endpoints = endpoints_check(patch.endpoints) if "endpoints" in sent else None
    for name in sent & {"name", "max_output_tokens", "enabled"}:
        setattr(pool, name, getattr(patch, name))
    if "upstream_model" in sent:
        pool.upstream_model = patch.upstream_model or ""
    _save(pool)
    if endpoints is not None:
        _endpoints_set(pool, endpoints)
    if "credential" in sent:
        _credential_set(pool, patch.credential)
    if patch.price is not None:
        _price_add(actor, pool, patch.price)
    return _finish(actor, "pool_update", pool, before)


@transaction.atomic
def price_set(actor: Actor, pool_id: str, spec: PriceSpec) -> PriceVersion:
    """A new dated price, in force from now on; requests under way are billed by the one they began with."""
    pool = _lock(pool_id)
    before = pool_state(pool)
    price = _price_add(actor, pool, spec)
    _finish(actor, "price_set", pool, before)
    return price


def pool_test(actor: Actor, spec: PoolSpec, pool_id: str | None = None) -> list[EndpointReport]:
    """Tries each endpoint as the gateway would, before anything is saved.

    With `pool_id` a blank credential means the stored one, and it is sent only to addresses under which that pool is
    saved already: a test must not be a way to carry a stored key to somewhere new.
    """
    stored, known = _stored_credential(pool_id)
    targets = [
        Target(
            endpoint.base_url,
            spec.engine,
            spec.upstream_model or spec.model,
            spec.credential or (stored if endpoint.base_url in known else None),
        )
        for endpoint in spec.endpoints[:MAX_TESTED]
    ]
    with ThreadPoolExecutor(max_workers=MAX_TESTED, thread_name_prefix="probe") as threads:
        steps = list(threads.map(lambda target: probe(target, settings.ACE_OPERATOR), targets))
    found = [EndpointReport(t.base_url, s) for t, s in zip(targets, steps, strict=True)]
    outcome = {each.base_url: each.passed for each in found}
    with transaction.atomic():
        subject = Subject("pool", pool_id or spec.name)
        entry_create(actor, "pool_test", subject, Change(after={"passed": outcome}))
    return found


def _stored_credential(pool_id: str | None) -> tuple[str | None, frozenset[str]]:
    if pool_id is None:
        return None, frozenset()
    pool = pools_with_details().filter(pk=pool_id).first()
    if pool is None:
        raise Missing("No such pool.")
    return credential_plain(pool), frozenset(each.base_url for each in pool.endpoints.all())


def endpoints_check(endpoints: Sequence[EndpointSpec]) -> list[EndpointSpec]:
    """With base URLs in their one spelling. Raises InputError with a pointer to each that may not be."""
    found: list[EndpointSpec] = []
    problems: list[Problem] = []
    seen: set[str] = set()
    for number, endpoint in enumerate(endpoints):
        pointer = f"/endpoints/{number}/base_url"
        try:
            url = addresses.checked(endpoint.base_url, settings.ACE_OPERATOR)
        except InputError as error:
            problems += [Problem(pointer, each.message, each.code) for each in error.problems]
            continue
        if url.text in seen:
            problems.append(Problem(pointer, "Stands twice in this pool.", "duplicate"))
        seen.add(url.text)
        found.append(endpoint.model_copy(update={"base_url": url.text}))
    if problems:
        raise InputError("An endpoint cannot be used: see `errors`.", problems=problems)
    return found


def credential_plain(pool: Pool) -> str | None:
    """For the snapshot and the connection test alone. Raises vault.VaultError under another secret."""
    try:
        stored = pool.credential
    except ProviderCredential.DoesNotExist:
        return None
    envelope = vault.Envelope(bytes(stored.wrapped_key), bytes(stored.ciphertext))
    return vault.unlock(envelope, settings.ACE_SNAPSHOT_SECRET, pool.id)


def _finish(actor: Actor, action: str, pool: Pool, before: dict[str, object]) -> Pool:
    pool = _reread(pool)
    after = pool_state(pool)
    if after != before:
        entry_create(actor, action, _subject(pool), Change(before, after))
        announce(actor, f"pool {pool.name} changed")
    return pool


def _endpoints_set(pool: Pool, wanted: Sequence[EndpointSpec]) -> None:
    by_url = {spec.base_url: spec.region or "" for spec in wanted}
    for endpoint in pool.endpoints.all():
        region = by_url.pop(endpoint.base_url, None)
        if region is None:
            endpoint.delete()
        elif region != endpoint.region:
            endpoint.region = region
            endpoint.save(update_fields=["region"])
    Endpoint.objects.bulk_create(
        Endpoint(pool=pool, base_url=url, region=region) for url, region in by_url.items()
    )


def _price_add(actor: Actor, pool: Pool, spec: PriceSpec) -> PriceVersion:
    """The same figures again are the same price: no new version."""
    figures = spec.model_dump()
    current = price_current(pool)
    if current is not None and all(getattr(current, name) == figures[name] for name in figures):
        return current
    return PriceVersion.objects.create(pool=pool, created_by=actor.name, **figures)


def _credential_set(pool: Pool, plain: str | None) -> None:
    if plain is None:
        ProviderCredential.objects.filter(pool=pool).delete()
        return
    envelope = vault.lock(plain, settings.ACE_SNAPSHOT_SECRET, pool.id)
    fingerprint = hmac.digest(settings.ACE_KEY_PEPPER, plain.encode(), "sha256").hex()
    ProviderCredential.objects.update_or_create(
        pool=pool,
        defaults={
            "wrapped_key": envelope.wrapped_key,
            "ciphertext": envelope.ciphertext,
            "fingerprint": fingerprint[:_FINGERPRINT_CHARS],
        },
    )


def _lock(pool_id: str) -> Pool:
    if not Pool.objects.select_for_update().filter(pk=pool_id).exists():
        raise Missing("No such pool.")
    return pools_with_details().get(pk=pool_id)


def _reread(pool: Pool) -> Pool:
    """Prefetched rows of a changed pool are stale."""
    return pools_with_details().get(pk=pool.pk)


def _subject(pool: Pool) -> Subject:
    return Subject("pool", pool.id)


def _save(pool: Pool) -> None:
    try:
        with transaction.atomic():
            pool.save()
    except IntegrityError:
        raise InputError.at("/name", "This name is taken.", "taken") from None
