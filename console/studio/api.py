"""Management API: policy documents, publishing, workers."""

from __future__ import annotations

import re
from dataclasses import asdict
from typing import ClassVar, Final

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from console.errors import Conflict
from console.rest.problems import Malformed, Stale
from console.rest.schema import answers
from console.rest.view import ApiView
from console.specs import Note, Spec, parse_json
from console.studio import selectors, services
from console.studio.models import PolicyDraft
from console.studio.services import DraftSpec, Publication

_ETAG: Final = re.compile(r'"([0-9]{1,18})"')
_SCOPE = OpenApiParameter(
    "scope",
    OpenApiTypes.STR,
    OpenApiParameter.PATH,
    description="`global`, `tenants/<id>`, `keys/<id>` or `models/<name>`.",
)


class PublishSpec(Spec):
    note: Note = ""


class RollbackSpec(Spec):
    revision: int
    note: Note = ""


class PolicyDetail(ApiView):
    actions: ClassVar = {"GET": "policies.read", "PUT": "policies.write"}

    @extend_schema(operation_id="policy_get", parameters=[_SCOPE], responses=answers(200))
    def get(self, request: Request, scope: str) -> Response:
        """The draft of one scope, with its edition as ETag."""
        return _document(selectors.draft_get(self.actor, scope))

    @extend_schema(
        operation_id="policy_put", parameters=[_SCOPE], request=DraftSpec, responses=answers(200)
    )
    def put(self, request: Request, scope: str) -> Response:
        """Replaces the draft; nothing takes effect before a publish.

        With `If-Match` only the edition that was read is replaced (412 otherwise); without it the last one wins.
        """
        spec = parse_json(DraftSpec, request.data)
        edition = _edition(request.headers.get("If-Match"))
        try:
            draft = services.document_save(self.actor, scope, spec, edition)
        except Conflict as error:
            raise Stale(error.detail) from None
        return _document(draft)


class PolicyList(ApiView):
    actions: ClassVar = {"GET": "policies.read"}

    @extend_schema(operation_id="policies_list", responses=answers(200))
    def get(self, request: Request) -> Response:
        """Every draft: at most one for each scope that sets something."""
        items = [selectors.draft_state(draft) for draft in selectors.drafts(self.actor)]
        return Response({"items": items})


class Publish(ApiView):
    actions: ClassVar = {"POST": "publish"}

    @extend_schema(operation_id="publish", request=PublishSpec, responses=answers(200))
    def post(self, request: Request) -> Response:
        """Freezes all drafts and sends them to the workers. When they do not compile, nothing changes."""
        return self.once(lambda: self._publish(request))

    def _publish(self, request: Request) -> Response:
        spec = parse_json(PublishSpec, request.data)
        return _published(services.publish(self.actor, spec.note))


class Rollback(ApiView):
    actions: ClassVar = {"POST": "publish"}

    @extend_schema(operation_id="rollback", request=RollbackSpec, responses=answers(200))
    def post(self, request: Request) -> Response:
        """Sends the documents of an earlier revision again, under a new version."""
        return self.once(lambda: self._rollback(request))

    def _rollback(self, request: Request) -> Response:
        spec = parse_json(RollbackSpec, request.data)
        return _published(services.rollback(self.actor, spec.revision, spec.note))


class Workers(ApiView):
    actions: ClassVar = {"GET": "workers.read"}

    @extend_schema(operation_id="workers_list", responses=answers(200))
    def get(self, request: Request) -> Response:
        """What each gateway worker has loaded. Silent for 10 s: `unknown`; for 10 min: no longer listed."""
        return Response([asdict(worker) for worker in selectors.workers()])


def _published(publication: Publication) -> Response:
    return Response(asdict(publication))


def _document(draft: PolicyDraft) -> Response:
    headers = {"ETag": f'"{draft.edition}"'}
    return Response(selectors.draft_state(draft), headers=headers)


def _edition(header: str | None) -> int | None:
    if header is None or header == "*":
        return None
    found = _ETAG.fullmatch(header)
    if found is None:
        raise Malformed("If-Match must be one ETag that this API gave.", "invalid_if_match")
    return int(found[1])
