"""Documents nobody thought of: never a fault of ours, and what is refused changes nothing."""

from __future__ import annotations

from typing import Any, Final, Literal

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase

from console.audit.models import AuditEntry
from tests.console.core_support import Api, make_key, make_pool, make_tenant

NO_SURROGATES: Final[tuple[Literal["Cs"], ...]] = ("Cs",)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=NO_SURROGATES), max_size=30)
    | st.sampled_from(
        ["day", "hard", "vllm", "eu", "https://8.8.8.8", "x", "ten_X", "\0", "enforce"]
    )
)
FIELDS = st.sampled_from(
    [
        *(
            "name",
            "tenant",
            "model",
            "engine",
            "endpoints",
            "price",
            "budgets",
            "rate_limits",
            "models",
        ),
        *("geo_fence", "allowed_regions", "base_url", "region", "limit_microusd", "window", "mode"),
        *("scope", "subject", "skills", "geo_residency", "note", "reason", "grace_s", "expires_at"),
        *(
            "input_microusd_per_mtok",
            "output_microusd_per_mtok",
            "credential",
            "revision",
            "enabled",
        ),
    ]
)
JSON = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(FIELDS | st.text(max_size=5), inner, max_size=5)
    ),
    max_leaves=12,
)
BODIES = st.dictionaries(FIELDS, JSON, max_size=6)


class FuzzTest(TestCase):
    api: Api
    targets: list[tuple[str, str]]

    @classmethod
    def setUpTestData(cls) -> None:
        tenant = make_tenant()
        key, pool = make_key(tenant).key, make_pool()
        cls.api = Api.of()
        cls.targets = [
            ("POST", "/tenants"),
            ("PATCH", f"/tenants/{tenant.id}"),
            ("POST", "/keys"),
            ("PATCH", f"/keys/{key.id}"),
            ("POST", f"/keys/{key.id}/rotate"),
            ("POST", f"/keys/{key.id}/revoke"),
            ("POST", "/pools"),
            ("PATCH", f"/pools/{pool.id}"),
            ("POST", "/budgets"),
            ("PUT", "/policies/global"),
            ("POST", "/publish"),
            ("POST", "/rollback"),
        ]

    @settings(max_examples=150, deadline=None)
    @given(number=st.integers(0, 11), body=BODIES)
    def test_no_document_is_a_fault_of_ours(self, number: int, body: dict[str, Any]) -> None:
        method, path = self.targets[number]
        before = AuditEntry.objects.count()
        answer = self.api(method, path, body)
        assert answer.status_code < 500, (method, path, body, answer.content)
        if answer.status_code >= 400:
            assert answer["Content-Type"] == "application/problem+json"
            assert AuditEntry.objects.count() == before

    @settings(max_examples=100, deadline=None)
    @given(body=st.binary(max_size=60))
    def test_no_bytes_are_a_fault_of_ours(self, body: bytes) -> None:
        assert self.api("POST", "/tenants", body).status_code in (400, 422)

    @settings(max_examples=100, deadline=None)
    @given(text=st.text(st.characters(exclude_categories=NO_SURROGATES), max_size=40))
    def test_no_address_or_query_is_a_fault_of_ours(self, text: str) -> None:
        from urllib.parse import quote

        for path in (
            f"/tenants/{quote(text)}",
            f"/policies/{quote(text)}",
            f"/requests/{quote(text)}",
        ):
            assert self.api("GET", path).status_code < 500
        for name in ("cursor", "limit", "tenant"):
            assert self.api("GET", f"/keys?{name}={quote(text)}").status_code < 500
        for name in ("from", "to", "group_by"):
            assert self.api("GET", f"/usage?{name}={quote(text)}").status_code < 500
