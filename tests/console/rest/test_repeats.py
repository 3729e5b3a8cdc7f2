from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from django.db import connection

from console.accounts.models import StoredAnswer
from console.keys.models import ApiKey
from console.tenants.models import Tenant
from tests.console.core_support import Api, make_tenant

pytestmark = pytest.mark.django_db
KEY = {"Idempotency-Key": "one"}


@pytest.fixture
def api() -> Api:
    return Api.of()


def test_a_repeat_gets_the_first_answer_and_does_nothing(api: Api) -> None:
    body = {"tenant": make_tenant().id, "name": "app"}
    first = api("POST", "/keys", body, **KEY)
    again = api("POST", "/keys", body, **KEY)
    assert (again.status_code, again.json()) == (201, first.json())
    assert again["Idempotent-Replayed"] == "true"
    assert ApiKey.objects.count() == 1


def test_the_kept_answer_does_not_give_the_plain_key_away(api: Api) -> None:
    body = {"tenant": make_tenant().id, "name": "app"}
    plain = api("POST", "/keys", body, **KEY).json()["key"]
    kept = StoredAnswer.objects.get()
    assert plain.encode() not in bytes(kept.body)
    assert "one" not in kept.digest


def test_another_body_under_the_same_key_is_refused(api: Api) -> None:
    api("POST", "/tenants", {"name": "a"}, **KEY)
    other = api("POST", "/tenants", {"name": "b"}, **KEY)
    assert (other.status_code, other.json()["code"]) == (409, "idempotency_key_reused")
    assert Tenant.objects.count() == 1


def test_an_error_is_not_kept(api: Api) -> None:
    make_tenant("a")
    assert api("POST", "/tenants", {"name": "a"}, **KEY).status_code == 422
    Tenant.objects.update(name="b")
    assert api("POST", "/tenants", {"name": "a"}, **KEY).status_code == 201


def test_two_callers_may_use_the_same_word(api: Api) -> None:
    other = Api.of()
    assert api("POST", "/tenants", {"name": "a"}, **KEY).status_code == 201
    assert other("POST", "/tenants", {"name": "b"}, **KEY).status_code == 201


@pytest.mark.parametrize("word", ["", " ", "a b", "x" * 256, "\u00e9"])
def test_an_odd_key_is_refused(api: Api, word: str) -> None:
    answer = api("POST", "/tenants", {"name": "a"}, **{"Idempotency-Key": word})
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_idempotency_key")
    assert not Tenant.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_parallel_repeats_do_it_once(api: Api) -> None:
    answers: list[int] = []

    def send() -> None:
        try:
            answers.append(api("POST", "/tenants", {"name": "a"}, **KEY).status_code)
        finally:
            connection.close()

    _together([send] * 6)
    assert answers == [201] * 6
    assert Tenant.objects.count() == 1


def _together(works: list[Callable[[], None]]) -> None:
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
