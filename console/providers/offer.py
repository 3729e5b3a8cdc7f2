"""What the installation can serve now: public model names and regions."""

from __future__ import annotations

from django.db.models import Count

from console.providers.models import Endpoint, Pool


def region_counts() -> dict[str, int]:
    """Endpoints of enabled pools by region; the empty region is "unknown"."""
    found = Endpoint.objects.filter(pool__enabled=True).values_list("region")
    return dict(found.annotate(Count("id")).order_by("region"))


def model_names(*, ready: bool = False) -> list[str]:
    """Names an application may ask for, in alphabetical order. `ready`: only those with a price and an endpoint."""
    pools = Pool.objects.filter(enabled=True)
    if ready:
        pools = pools.filter(prices__isnull=False, endpoints__isnull=False)
    return list(pools.order_by("model").values_list("model", flat=True).distinct())
