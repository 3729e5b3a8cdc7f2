"""Management API: pools and their prices."""

from __future__ import annotations

from dataclasses import asdict
from typing import ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from console.providers import selectors, services
from console.providers.specs import PoolPatch, PoolSpec
from console.rest import paging
from console.rest.schema import PAGE_QUERY, answers
from console.rest.view import ApiView, created
from console.specs import parse_json

_ACTIONS = {"GET": "pools.read", "POST": "pools.write", "PATCH": "pools.write"}


class PoolList(ApiView):
    actions: ClassVar = _ACTIONS
    query = paging.QUERY

    @extend_schema(operation_id="pools_list", parameters=PAGE_QUERY, responses=answers(200))
    def get(self, request: Request) -> Response:
        """Pools with endpoints and current price, newest first; never their provider keys."""
        rows = selectors.pools_visible(self.actor)
        return Response(paging.page(request, rows, selectors.pool_state))

    @extend_schema(operation_id="pool_create", request=PoolSpec, responses=answers(201))
    def post(self, request: Request) -> Response:
        """Pool, endpoints, price and provider key in one step. Takes effect at once."""
        return self.once(lambda: self._create(request))

    def _create(self, request: Request) -> Response:
        spec = parse_json(PoolSpec, request.data)
        return created(selectors.pool_state(services.pool_create(self.actor, spec)))


class PoolDetail(ApiView):
    actions: ClassVar = _ACTIONS

    @extend_schema(operation_id="pool_get", responses=answers(200))
    def get(self, request: Request, pool_id: str) -> Response:
        """One pool."""
        return Response(selectors.pool_state(selectors.pool_get(self.actor, pool_id)))

    @extend_schema(operation_id="pool_update", request=PoolPatch, responses=answers(200))
    def patch(self, request: Request, pool_id: str) -> Response:
        """A price that is sent becomes a new price version; older ones stay for what they billed."""
        patch = parse_json(PoolPatch, request.data)
        return Response(selectors.pool_state(services.pool_update(self.actor, pool_id, patch)))


class PoolTest(ApiView):
    actions: ClassVar = _ACTIONS

    @extend_schema(operation_id="pool_test", request=PoolSpec, responses=answers(200))
    def post(self, request: Request) -> Response:
        """Tries the endpoints of a pool that is not saved; saves nothing."""
        spec = parse_json(PoolSpec, request.data)
        reports = services.pool_test(self.actor, spec)
        rows = [
            {
                "base_url": each.base_url,
                "passed": each.passed,
                "steps": list(map(asdict, each.steps)),
            }
            for each in reports
        ]
        return Response({"endpoints": rows})


class PoolPrices(ApiView):
    actions: ClassVar = {"GET": "prices.read"}
    query = paging.QUERY

    @extend_schema(operation_id="pool_prices_list", parameters=PAGE_QUERY, responses=answers(200))
    def get(self, request: Request, pool_id: str) -> Response:
        """Every price the pool ever had, newest first."""
        rows = selectors.prices_of_pool(pool_id).order_by("-id")
        return Response(paging.page(request, rows, selectors.price_document))
