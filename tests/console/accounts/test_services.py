from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from console.accounts import services
from console.accounts.models import LoginAttempt, ManagementToken, StoredAnswer, User
from console.accounts.selectors import first_run_needed, token_by_text
from console.accounts.services import TokenSpec, TooManyTries, UserSpec
from console.actor import SYSTEM
from console.audit.models import AuditEntry
from console.errors import Conflict, InputError, Missing
from policies.schema.credentials import mint
from tests.console.core_support import ADMIN, make_tenant

pytestmark = pytest.mark.django_db
PASSWORD = "correct horse battery"


def make_user(name: str = "alice", role: services.RoleName = "admin") -> User:
    return services.user_create(SYSTEM, UserSpec(username=name, password=PASSWORD, role=role))


def test_the_right_password_signs_in_and_clears_the_count() -> None:
    user = make_user()
    for _ in range(4):
        with pytest.raises(InputError):
            services.sign_in("alice", "wrong", "10.0.0.1")
    assert services.sign_in(" alice ", PASSWORD, "10.0.0.1") == user
    assert not LoginAttempt.objects.exists()


def test_after_five_wrong_tries_even_the_right_password_waits() -> None:
    make_user()
    for _ in range(5):
        with pytest.raises(InputError):
            services.sign_in("Alice", "wrong", "10.0.0.1")
    for _ in range(3):
        with pytest.raises(TooManyTries):
            services.sign_in("alice", PASSWORD, "10.0.0.1")
    assert LoginAttempt.objects.count() == 5, "refused tries must not prolong the wait"
    assert services.sign_in("alice", PASSWORD, "10.0.0.2").username == "alice"
    LoginAttempt.objects.update(at=timezone.now() - timedelta(minutes=16))
    assert services.sign_in("alice", PASSWORD, "10.0.0.1").username == "alice"


@pytest.mark.parametrize("name", ["nobody", "", "a\0b", "x" * 500, "\ud83d"])
def test_an_unknown_name_sounds_like_a_wrong_password(name: str) -> None:
    make_user()
    with pytest.raises(InputError) as unknown:
        services.sign_in(name, "wrong", "10.0.0.1")
    with pytest.raises(InputError) as known:
        services.sign_in("alice", "wrong", "10.0.0.1")
    assert str(unknown.value) == str(known.value)


def test_a_deactivated_person_does_not_get_in() -> None:
    make_user()
    bob = make_user("bob")
    services.user_deactivate(ADMIN, bob.id)
    with pytest.raises(InputError):
        services.sign_in("bob", PASSWORD, "10.0.0.1")


@pytest.mark.django_db(transaction=True)
def test_parallel_guesses_do_not_slip_under_the_limit() -> None:
    make_user()
    outcomes: list[type[Exception]] = []

    def guess() -> None:
        try:
            services.sign_in("alice", "wrong", "10.0.0.1")
        except (InputError, TooManyTries) as error:
            outcomes.append(type(error))
        finally:
            connection.close()

    threads = [threading.Thread(target=guess) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(outcomes) == 12
    assert outcomes.count(InputError) <= 5


def test_the_first_account_is_made_once() -> None:
    assert first_run_needed()
    admin = services.first_admin_create("root", PASSWORD)
    assert (admin.role, first_run_needed()) == ("admin", False)
    with pytest.raises(Conflict):
        services.first_admin_create("other", PASSWORD)


@pytest.mark.parametrize("password", ["short", "password1234", "alice-alice-1"])
def test_weak_passwords_are_refused(password: str) -> None:
    with pytest.raises(InputError) as caught:
        services.user_create(SYSTEM, UserSpec(username="alice-alice", password=password))
    assert caught.value.problems[0].pointer == "/password"
    assert not User.objects.exists()


def test_a_name_is_taken_once() -> None:
    make_user()
    with pytest.raises(InputError) as caught:
        make_user()
    assert caught.value.problems[0].code == "taken"


def test_the_last_admin_stays_admin() -> None:
    alice = make_user()
    acts: list[Callable[[], User]] = [
        lambda: services.user_role_set(ADMIN, alice.id, "finance"),
        lambda: services.user_deactivate(ADMIN, alice.id),
    ]
    for act in acts:
        with pytest.raises(Conflict):
            act()
    make_user("bob")
    assert services.user_role_set(ADMIN, alice.id, "finance").role == "finance"


def test_a_developer_is_given_only_tenants_that_exist() -> None:
    tenant = make_tenant()
    spec = UserSpec(username="dev", password=PASSWORD, tenants=(tenant.id,))
    assert list(services.user_create(SYSTEM, spec).tenants.all()) == [tenant]
    with pytest.raises(InputError) as caught:
        services.user_create(SYSTEM, UserSpec(username="d2", password=PASSWORD, tenants=("ten_X",)))
    assert caught.value.problems[0].pointer == "/tenants"


def test_passwords_are_in_no_audit_line() -> None:
    alice = make_user()
    services.password_set(ADMIN, alice.id, "another long secret")
    lines = str(list(AuditEntry.objects.values()))
    assert PASSWORD not in lines
    assert "another long secret" not in lines
    assert alice.password not in lines


def test_a_token_is_found_by_its_text_until_it_is_revoked() -> None:
    issued = services.token_create(SYSTEM, TokenSpec(name="ci"))
    assert token_by_text(issued.plain) == issued.token
    services.token_revoke(ADMIN, issued.token.id)
    services.token_revoke(ADMIN, issued.token.id)
    assert token_by_text(issued.plain) is None
    assert AuditEntry.objects.filter(action="token_revoke").count() == 1
    with pytest.raises(Missing):
        services.token_revoke(ADMIN, "tok_X")


def test_a_mistyped_token_costs_no_query(django_assert_num_queries: Any) -> None:
    good = mint("mgmt")
    with django_assert_num_queries(0):
        assert token_by_text(good[:-1] + ("a" if good[-1] != "a" else "b")) is None
        assert token_by_text(mint("live")) is None


def test_the_pepper_is_not_in_the_database() -> None:
    from django.conf import settings

    issued = services.token_create(SYSTEM, TokenSpec(name="ci"))
    stored = str(list(ManagementToken.objects.values()))
    assert settings.ACE_KEY_PEPPER.hex() not in stored
    assert issued.plain not in stored


def test_the_sweep_drops_only_what_is_old() -> None:
    for minutes in (1, 20):
        at = timezone.now() - timedelta(minutes=minutes)
        LoginAttempt.objects.create(account="a", ip="i", at=at)
    for hours in (1, 25):
        at = timezone.now() - timedelta(hours=hours)
        StoredAnswer.objects.create(
            digest=str(hours), request_sha256="", status=200, body=b"", created_at=at
        )
    services.leftovers_delete()
    assert LoginAttempt.objects.count() == 1
    assert StoredAnswer.objects.get().digest == "1"
