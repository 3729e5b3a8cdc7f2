"""What the OpenAPI document says of answers, pages and errors."""

from __future__ import annotations

from typing import Any, Final

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse
from pydantic import BaseModel

from console.rest.rendering import PROBLEM_TYPE


class FieldError(BaseModel):
    pointer: str
    """JSON pointer into the request body."""
    message: str
    code: str
    scope: str = ""
    """Policy document the pointer points into, when it is not the body."""


class ProblemDocument(BaseModel):
    """RFC 9457."""

    type: str
    title: str
    status: int
    detail: str
    instance: str
    code: str
    request_id: str
    errors: list[FieldError]


PAGE_QUERY: Final = [
    OpenApiParameter("cursor", OpenApiTypes.STR, description="`next_cursor` of the page before."),
    OpenApiParameter("limit", OpenApiTypes.INT, description="Rows of a page, at most 200."),
]


def answers(status: int) -> dict[Any, Any]:
    """The good answer and the problem document every other one is."""
    problem = OpenApiResponse(ProblemDocument, description="A problem document (RFC 9457).")
    return {status: OpenApiTypes.OBJECT, ("default", PROBLEM_TYPE): problem}


class ManagementTokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    target_class = "console.rest.authentication.ManagementTokenAuthentication"
    name = "managementToken"

    def get_security_definition(self, auto_schema: AutoSchema) -> dict[str, Any]:
        return {"type": "http", "scheme": "bearer", "bearerFormat": "ace_mgmt_…"}
