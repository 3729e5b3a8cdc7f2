"""What keys have cost and when they were last busy, from the ledger's sums."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Max, Sum
from django.utils import timezone

from telemetry.models import UsageRollup

BUCKET = timedelta(minutes=15)


@dataclass(frozen=True, slots=True)
class Activity:
    month_microusd: int = 0
    """Since the first of the month, UTC."""
    month_requests: int = 0
    last_bucket: datetime | None = None
    """Start of the last quarter of an hour in which it was billed; None: never used."""

    @property
    def last_used(self) -> datetime | None:
        """The latest moment it can have been: the end of that quarter, or now."""
        return self.last_bucket and min(self.last_bucket + BUCKET, timezone.now())


def month_start() -> datetime:
    return timezone.now().replace(day=1, hour=0, minute=0, second=0, microsecond=0)


def activity_of(key_ids: Iterable[str]) -> dict[str, Activity]:
    """Two grouped queries, whatever the number of keys. A key that never worked is left out."""
    ids = list(key_ids)
    rollups = UsageRollup.objects.filter(key_id__in=ids)
    last = dict(rollups.values_list("key_id").annotate(Max("bucket_start")).order_by())
    month = rollups.filter(bucket_start__gte=month_start())
    sums = month.values_list("key_id").annotate(Sum("billed_microusd"), Sum("requests")).order_by()
    spent = {key_id: (money, requests) for key_id, money, requests in sums}
    return {key_id: Activity(*spent.get(key_id, (0, 0)), bucket) for key_id, bucket in last.items()}
