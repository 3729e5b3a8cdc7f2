"""Accounts: people, management tokens, and the throttle before the door."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, Literal

from django.conf import settings
from django.contrib.auth import authenticate
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError as PasswordRefused
from django.db import IntegrityError, connection, transaction
from django.utils import timezone
from pydantic import AwareDatetime, Field

from console.accounts.models import LoginAttempt, ManagementToken, Role, StoredAnswer, User
from console.actor import SYSTEM, Actor
from console.audit.services import Change, Subject, entry_create
from console.errors import Conflict, ConsoleError, InputError, Missing
from console.locks import AdvisoryLock
from console.specs import Name, Spec
from policies.schema.credentials import digest, mint

LOGIN_TRIES: Final = 5
LOGIN_WINDOW: Final = timedelta(minutes=15)
ANSWER_LIFE: Final = timedelta(hours=24)
_PREFIX_CHARS: Final = 12

RoleName = Literal["admin", "finance", "developer"]


class TooManyTries(ConsoleError):  # noqa: N818 - reads as the state it is
    code = "too_many_tries"


class UserSpec(Spec):
    username: Name
    password: str = Field(min_length=1, max_length=200)
    role: RoleName = "developer"
    tenants: tuple[str, ...] = ()
    """Tenant ids a developer may see."""


class TokenSpec(Spec):
    name: Name
    role: RoleName = "admin"
    tenants: tuple[str, ...] = ()
    expires_at: AwareDatetime | None = None


@dataclass(frozen=True, slots=True)
class IssuedToken:
    token: ManagementToken
    plain: str
    """Shown once; the database holds its digest only."""


# ---------------------------------------------------------------------------------------- people


@transaction.atomic
def user_create(actor: Actor, spec: UserSpec) -> User:
    """Raises InputError for a weak password or a name that is taken."""
    _password_check(spec.username, spec.password)
    try:
        with transaction.atomic():
            user = User.objects.create_user(spec.username, spec.password, role=spec.role)
            _tenants_set(user, spec.tenants)
    except IntegrityError:
        raise InputError.at("/username", "This name is taken.", "taken") from None
    entry_create(actor, "user_create", Subject("user", user.id), Change(after=user_state(user)))
    return user


@transaction.atomic
def first_admin_create(username: str, password: str) -> User:
    """The first-run page: works once. Raises Conflict when an account exists."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [AdvisoryLock.FIRST_RUN])
    if User.objects.exists():
        raise Conflict("The first account exists already; sign in.", code="already_set_up")
    return user_create(SYSTEM, UserSpec(username=username, password=password, role="admin"))


@transaction.atomic
def user_role_set(
    actor: Actor, user_id: str, role: RoleName, tenants: tuple[str, ...] = ()
) -> User:
    """Takes effect with the person's next request. Raises Conflict for the last admin."""
    user = _user_lock(user_id)
    before = user_state(user)
    if user.role == Role.ADMIN and role != "admin":
        _other_admin_check(user)
    user.role = role
    user.save(update_fields=["role"])
    _tenants_set(user, tenants)
    change = Change(before, user_state(user))
    entry_create(actor, "user_role_set", Subject("user", user.id), change)
    return user


@transaction.atomic
def user_deactivate(actor: Actor, user_id: str) -> User:
    user = _user_lock(user_id)
    before = user_state(user)
    if user.role == Role.ADMIN:
        _other_admin_check(user)
    user.is_active = False
    user.save(update_fields=["is_active"])
    change = Change(before, user_state(user))
    entry_create(actor, "user_deactivate", Subject("user", user.id), change)
    return user


@transaction.atomic
def password_set(actor: Actor, user_id: str, password: str) -> User:
    """Ends the person's other sessions: their hash is part of the session."""
    user = _user_lock(user_id)
    _password_check(user.username, password)
    user.set_password(password)
    user.save(update_fields=["password"])
    entry_create(actor, "password_set", Subject("user", user.id), Change())
    return user


def user_state(user: User) -> dict[str, Any]:
    return {
        "id": user.id,
        "username": user.username,
        "role": str(user.role),
        "tenants": sorted(user.tenants.values_list("id", flat=True)),
        "is_active": user.is_active,
    }


def _tenants_set(holder: User | ManagementToken, ids: Sequence[str]) -> None:
    """Raises InputError for an id that is no tenant; the relation knows its model, we need not import it."""
    found: Any = User.tenants.rel.model._default_manager.filter(pk__in=ids)  # noqa: SLF001
    if len(found) != len(set(ids)):
        raise InputError.at("/tenants", "One of these tenants does not exist.", "unknown")
    holder.tenants.set(found)


def _password_check(username: str, password: str) -> None:
    try:
        validate_password(password, User(username=username))
    except PasswordRefused as error:
        raise InputError.at("/password", " ".join(error.messages), "weak_password") from None


def _user_lock(user_id: str) -> User:
    user = User.objects.select_for_update().filter(pk=user_id).first()
    if user is None:
        raise Missing("No such account.")
    return user


def _other_admin_check(user: User) -> None:
    """The rows are locked: two admins who demote each other at once must not both succeed."""
    admins = User.objects.select_for_update().filter(role=Role.ADMIN, is_active=True)
    if not any(admin.pk != user.pk for admin in admins):
        raise Conflict("This is the last admin; make another one first.", code="last_admin")


# ---------------------------------------------------------------------------------------- sign-in


def sign_in(username: str, password: str, ip: str) -> User:
    """The person, if name and password fit. Raises TooManyTries, or InputError with the same words for any misfit.

    The try is written down before the password is looked at, so that parallel guesses cannot slip under the limit.
    """
    username, password = _storable(username.strip()), _storable(password)
    account = username.lower()[:150]
    attempt = LoginAttempt.objects.create(account=account, ip=ip)
    recent = LoginAttempt.objects.filter(
        account=account, ip=ip, at__gt=timezone.now() - LOGIN_WINDOW
    )
    if recent.count() > LOGIN_TRIES:
        attempt.delete()  # a refused try must not prolong the wait for ever
        raise TooManyTries("Too many tries. Wait a quarter of an hour, then try again.")
    user = authenticate(username=username, password=password)
    if not isinstance(user, User):
        raise InputError("Name or password is wrong.", code="wrong_credentials")
    recent.delete()
    return user


def _storable(text: str) -> str:
    """Without what neither the database nor the hasher takes: NUL and lone surrogates."""
    return text.encode("utf-8", "replace").decode().replace("\0", "")


# ---------------------------------------------------------------------------------------- tokens


@transaction.atomic
def token_create(actor: Actor, spec: TokenSpec) -> IssuedToken:
    plain = mint("mgmt")
    token = ManagementToken.objects.create(
        name=spec.name,
        digest=digest(settings.ACE_KEY_PEPPER, plain),
        prefix=plain[:_PREFIX_CHARS],
        last4=plain[-4:],
        role=spec.role,
        created_by=actor.name,
        expires_at=spec.expires_at,
    )
    _tenants_set(token, spec.tenants)
    change = Change(after=token_state(token))
    entry_create(actor, "token_create", Subject("token", token.id), change)
    return IssuedToken(token, plain)


@transaction.atomic
def token_revoke(actor: Actor, token_id: str) -> ManagementToken:
    """Works at once: tokens are looked up for each request. Doing it twice changes nothing."""
    token = ManagementToken.objects.select_for_update().filter(pk=token_id).first()
    if token is None:
        raise Missing("No such management token.")
    if token.revoked_at is None:
        before = token_state(token)
        token.revoked_at = timezone.now()
        token.save(update_fields=["revoked_at"])
        change = Change(before, token_state(token))
        entry_create(actor, "token_revoke", Subject("token", token.id), change)
    return token


def token_state(token: ManagementToken) -> dict[str, Any]:
    return {
        "id": token.id,
        "name": token.name,
        "role": str(token.role),
        "prefix": token.prefix,
        "last4": token.last4,
        "expires_at": token.expires_at.isoformat() if token.expires_at else None,
        "revoked_at": token.revoked_at.isoformat() if token.revoked_at else None,
    }


def leftovers_delete() -> None:
    """Old sign-in tries and answers kept for repeated requests."""
    LoginAttempt.objects.filter(at__lt=timezone.now() - LOGIN_WINDOW).delete()
    StoredAnswer.objects.filter(created_at__lt=timezone.now() - ANSWER_LIFE).delete()
