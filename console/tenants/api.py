"""Management API: tenants."""

from __future__ import annotations

from typing import ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from console.rest import paging
from console.rest.schema import PAGE_QUERY, answers
from console.rest.view import ApiView, created
from console.specs import parse_json
from console.tenants import selectors, services
from console.tenants.services import TenantPatch, TenantSpec

_ACTIONS = {"GET": "tenants.read", "POST": "tenants.write", "PATCH": "tenants.write"}


class TenantList(ApiView):
    actions: ClassVar = _ACTIONS
    query = paging.QUERY

    @extend_schema(operation_id="tenants_list", parameters=PAGE_QUERY, responses=answers(200))
    def get(self, request: Request) -> Response:
        """Tenants the token may see, newest first."""
        rows = selectors.tenants_visible(self.actor)
        return Response(paging.page(request, rows, selectors.tenant_state))

    @extend_schema(operation_id="tenant_create", request=TenantSpec, responses=answers(201))
    def post(self, request: Request) -> Response:
        """The name is unique. Takes effect at once."""
        return self.once(lambda: self._create(request))

    def _create(self, request: Request) -> Response:
        spec = parse_json(TenantSpec, request.data)
        return created(selectors.tenant_state(services.tenant_create(self.actor, spec)))


class TenantDetail(ApiView):
    actions: ClassVar = _ACTIONS

    @extend_schema(operation_id="tenant_get", responses=answers(200))
    def get(self, request: Request, tenant_id: str) -> Response:
        """One tenant."""
        return Response(selectors.tenant_state(selectors.tenant_get(self.actor, tenant_id)))

    @extend_schema(operation_id="tenant_update", request=TenantPatch, responses=answers(200))
    def patch(self, request: Request, tenant_id: str) -> Response:
        """Changes what is sent; `geo_fence: null` lifts the fence. Takes effect at once."""
        patch = parse_json(TenantPatch, request.data)
        tenant = services.tenant_update(self.actor, tenant_id, patch)
        return Response(selectors.tenant_state(tenant))
