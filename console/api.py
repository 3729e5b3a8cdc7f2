"""Addresses of the management API and its OpenAPI document."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, URLResolver, include, path, re_path
from django.views.decorators.csrf import csrf_exempt
from drf_spectacular.views import SpectacularAPIView

from console.budgets import api as budgets
from console.keys import api as keys
from console.providers import api as providers
from console.rest.problems import problem_page
from console.spend import api as spend
from console.studio import api as studio
from console.tenants import api as tenants


@csrf_exempt
def nothing_here(request: HttpRequest) -> HttpResponse:
    """Last of the API's addresses, so that no page and no redirect answers a caller of the API."""
    return problem_page(request, 404, "There is nothing at this address.")


_v1: list[URLPattern | URLResolver] = [
    path("tenants", tenants.TenantList.as_view()),
    path("tenants/<str:tenant_id>", tenants.TenantDetail.as_view()),
    path("keys", keys.KeyList.as_view()),
    path("keys/<str:key_id>", keys.KeyDetail.as_view()),
    path("keys/<str:key_id>/revoke", keys.KeyRevoke.as_view()),
    path("keys/<str:key_id>/rotate", keys.KeyRotate.as_view()),
    path("budgets", budgets.BudgetList.as_view()),
    path("budgets/<str:budget_id>", budgets.BudgetDetail.as_view()),
    path("pools", providers.PoolList.as_view()),
    path("pools/test", providers.PoolTest.as_view()),
    path("pools/<str:pool_id>", providers.PoolDetail.as_view()),
    path("pools/<str:pool_id>/prices", providers.PoolPrices.as_view()),
    path("policies", studio.PolicyList.as_view()),
    path("policies/<path:scope>", studio.PolicyDetail.as_view()),
    path("publish", studio.Publish.as_view()),
    path("rollback", studio.Rollback.as_view()),
    path("workers", studio.Workers.as_view()),
    path("usage", spend.UsageList.as_view()),
    path("requests/<str:request_id>", spend.RequestDetail.as_view()),
]

urlpatterns: list[URLPattern | URLResolver] = [
    path("v1/", include(_v1)),
    path("schema/", SpectacularAPIView.as_view(), name="api-schema"),
    re_path(r"", nothing_here),
]
