"""Management API: API keys."""

from __future__ import annotations

from typing import ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from console.keys import selectors, services
from console.keys.services import IssuedKey, KeyPatch, KeySpec, RevokeSpec, RotateSpec
from console.rest import paging
from console.rest.problems import Malformed
from console.rest.schema import PAGE_QUERY, answers
from console.rest.view import ApiView, created
from console.specs import parse_json

_ACTIONS = {"GET": "keys.read", "POST": "keys.write", "PATCH": "keys.write"}


class KeyList(ApiView):
    actions: ClassVar = _ACTIONS
    query = paging.QUERY | {"tenant"}

    @extend_schema(operation_id="keys_list", parameters=PAGE_QUERY, responses=answers(200))
    def get(self, request: Request) -> Response:
        """Keys the token may see, newest first; never their secrets."""
        rows = selectors.keys_visible(self.actor)
        tenant = request.query_params.get("tenant", "")
        if "\0" in tenant:
            raise Malformed("`tenant` holds a NUL character.", "invalid_identifier")
        if tenant:
            rows = rows.filter(tenant_id=tenant)
        return Response(paging.page(request, rows, selectors.key_state))

    @extend_schema(operation_id="key_create", request=KeySpec, responses=answers(201))
    def post(self, request: Request) -> Response:
        """The answer holds the plain key, this once."""
        return self.once(lambda: self._create(request))

    def _create(self, request: Request) -> Response:
        spec = parse_json(KeySpec, request.data)
        return created(_issued(services.key_create(self.actor, spec)))


class KeyDetail(ApiView):
    actions: ClassVar = _ACTIONS

    @extend_schema(operation_id="key_get", responses=answers(200))
    def get(self, request: Request, key_id: str) -> Response:
        """One key, without its secret."""
        return Response(selectors.key_state(selectors.key_get(self.actor, key_id)))

    @extend_schema(operation_id="key_update", request=KeyPatch, responses=answers(200))
    def patch(self, request: Request, key_id: str) -> Response:
        """Changes what is sent. Takes effect at once."""
        patch = parse_json(KeyPatch, request.data)
        return Response(selectors.key_state(services.key_update(self.actor, key_id, patch)))


class KeyRevoke(ApiView):
    actions: ClassVar = _ACTIONS

    @extend_schema(operation_id="key_revoke", request=RevokeSpec, responses=answers(200))
    def post(self, request: Request, key_id: str) -> Response:
        """Works within a second on every worker, and for ever."""
        return self.once(lambda: self._revoke(request, key_id))

    def _revoke(self, request: Request, key_id: str) -> Response:
        spec = parse_json(RevokeSpec, request.data)
        key = services.key_revoke(self.actor, key_id, spec.reason)
        return Response(selectors.key_state(key))


class KeyRotate(ApiView):
    actions: ClassVar = _ACTIONS

    @extend_schema(operation_id="key_rotate", request=RotateSpec, responses=answers(200))
    def post(self, request: Request, key_id: str) -> Response:
        """The answer holds the new plain key, this once."""
        return self.once(lambda: self._rotate(request, key_id))

    def _rotate(self, request: Request, key_id: str) -> Response:
        spec = parse_json(RotateSpec, request.data)
        return Response(_issued(services.key_rotate(self.actor, key_id, spec.grace_s)))


def _issued(issued: IssuedKey) -> dict[str, object]:
    return {**selectors.key_state(issued.key), "key": issued.plain}
