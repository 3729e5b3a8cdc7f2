from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import redis
from django.utils import timezone

from console import broker
from console.budgets import usage
from console.budgets.models import Budget
from console.budgets.services import BudgetSpec, Owner, budget_create
from console.budgets.usage import budget_uses
from console.keys.models import ApiKey
from policies.schema import wire
from policies.schema.window import window_at
from telemetry.models import UsageRollup
from tests.console.core_support import ADMIN, day_budget, make_key, make_tenant

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _empty_broker() -> None:
    broker.client().flushdb()


@pytest.fixture
def key() -> ApiKey:
    return make_key(make_tenant()).key


def spend(key: ApiKey, microusd: int, days_ago: int = 0) -> None:
    start = timezone.now().replace(minute=0, second=0, microsecond=0) - timedelta(days=days_ago)
    values = dict.fromkeys(
        (
            "failed_requests",
            "estimated_requests",
            "input_tokens",
            "cached_input_tokens",
            "output_tokens",
        ),
        0,
    )
    UsageRollup.objects.create(
        bucket_start=start,
        tenant_id=key.tenant_id,
        key_id=key.id,
        model=f"m{microusd}",
        pool_id="p",
        requests=1,
        billed_microusd=microusd,
        **values,
    )


def test_each_budget_counts_its_own_subject_and_window(key: ApiKey) -> None:
    other = make_key(key.tenant, "other").key
    spend(key, 10)
    spend(key, 100, days_ago=1)
    spend(other, 1000)
    total = BudgetSpec(limit_microusd=5000, window="total")
    made = [
        budget_create(ADMIN, day_budget(15), Owner(key.tenant_id, key.id)),
        budget_create(ADMIN, day_budget(15), Owner(key.tenant_id)),
        budget_create(ADMIN, total, Owner(key.tenant_id, key.id)),
        budget_create(ADMIN, total, Owner(key.tenant_id)),
    ]
    uses = budget_uses(made)
    assert [use.spent for use in uses] == [10, 1010, 110, 1110]
    assert [use.left for use in uses] == [5, 0, 4890, 3890]
    assert uses[0].resets_at is not None
    assert uses[0].resets_at > timezone.now()
    assert uses[2].resets_at is None


def test_what_workers_hold_counts_as_reserved(key: ApiKey) -> None:
    budget = budget_create(ADMIN, day_budget(100), Owner(key.tenant_id))
    start = window_at("day", "UTC", int(timezone.now().timestamp() * 1000)).start_ms
    name = wire.BUDGET_KEY.format(budget_id=budget.id, window_start_ms=start)
    broker.client().hset(name, mapping={"h:a": 7, "h:b": 5, "u:a": 90, "base_microusd": 1})
    (use,) = budget_uses([budget])
    assert (use.reserved, use.left) == (12, 88)


def test_without_redis_what_is_reserved_is_unknown_not_zero(
    key: ApiKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    budget = budget_create(ADMIN, day_budget(100), Owner(key.tenant_id))

    class Away:
        def pipeline(self, **_: Any) -> Any:
            return self

        def hgetall(self, _: str) -> None:
            return

        def execute(self) -> None:
            raise redis.ConnectionError("away")

    monkeypatch.setattr(usage, "client", Away)
    assert budget_uses([budget])[0].reserved is None


def test_many_budgets_cost_as_many_queries_as_there_are_kinds_of_window(
    key: ApiKey, django_assert_max_num_queries: Any
) -> None:
    for number in range(12):
        window = ("day", "month", "total")[number % 3]
        spec = BudgetSpec(limit_microusd=number, window=window)  # type: ignore[arg-type]
        budget_create(ADMIN, spec, Owner(key.tenant_id, key.id if number % 2 else None))
    found = list(Budget.objects.all())
    with django_assert_max_num_queries(6):
        assert len(budget_uses(found)) == 12
