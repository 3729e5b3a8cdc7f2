"""Every writing address of the management API, found in the URL configuration, against every kind of bad input.

Whatever is wrong is told as a problem document with a 4xx status, and nothing is changed: no row, no audit line.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import orjson
import pytest
from django.apps import apps
from django.core.handlers.asgi import ASGIRequest
from django.db.models import Model
from django.urls import URLPattern

from console import api as addresses
from console import broker
from console.accounts.models import ManagementToken
from console.tenants.api import TenantDetail
from tests.console.core_support import URL, Api, day_budget, make_key, make_pool, make_tenant

pytestmark = pytest.mark.django_db
WRITING: Final = ("POST", "PUT", "PATCH", "DELETE")
JSON: Final = "application/json"
PRICE: Final = {"input_microusd_per_mtok": 1, "output_microusd_per_mtok": 2}
POOL: Final = {
    "name": "p2",
    "model": "m",
    "engine": "vllm",
    "endpoints": [{"base_url": URL, "region": "eu"}],
    "price": PRICE,
    "credential": "sk-1",
}
BUDGET: Final = {"name": "b", "limit_microusd": 5, "window": "month", "mode": "hard"}

GOOD: Final[dict[tuple[str, str], dict[str, Any]]] = {
    ("POST", "tenants"): {"name": "T2", "geo_fence": {"allowed_regions": ["eu"]}},
    ("PATCH", "tenants/<str:tenant_id>"): {"name": "T3"},
    ("POST", "keys"): {
        "tenant": "{tenant_id}",
        "name": "k",
        "models": ["m"],
        "budgets": [BUDGET],
        "rate_limits": {"requests_per_minute": 6, "tokens_per_minute": 7, "concurrency": 8},
        "expires_at": "2099-01-01T00:00:00Z",
    },
    ("PATCH", "keys/<str:key_id>"): {"name": "k3", "rate_limits": {"concurrency": 8}},
    ("POST", "keys/<str:key_id>/revoke"): {"reason": "lost"},
    ("POST", "keys/<str:key_id>/rotate"): {"grace_s": 5},
    ("POST", "budgets"): {**BUDGET, "scope": "tenant", "subject": "{tenant_id}"},
    ("PATCH", "budgets/<str:budget_id>"): {"limit_microusd": 9},
    ("DELETE", "budgets/<str:budget_id>"): {},
    ("POST", "pools"): POOL,
    ("POST", "pools/test"): POOL,
    ("PATCH", "pools/<str:pool_id>"): {"name": "p3", "price": PRICE},
    ("PUT", "policies/<path:scope>"): {"skills": {"geo_residency": {"mode": "enforce"}}},
    ("POST", "publish"): {"note": "n"},
    ("POST", "rollback"): {"revision": 1, "note": "n"},
}
"""A body that each address takes; the mutations below start from it."""
TAKES_NOTHING: Final = {
    ("POST", "keys/<str:key_id>/revoke"),
    ("POST", "keys/<str:key_id>/rotate"),
    ("POST", "publish"),
    ("DELETE", "budgets/<str:budget_id>"),
}
"""Where a request without a body is a good one."""

RAW: Final[dict[str, bytes]] = {
    "null": b"null",
    "list": b"[]",
    "list of an object": b"[{}]",
    "text": b'"x"',
    "number": b"1",
    "cut": b'{"name":',
    "comma": b'{"name":"x",}',
    "single quotes": b"{'name':'x'}",
    "two documents": b"{}{}",
    "comment": b'{/*x*/"name":"x"}',
    "nan": b'{"name":NaN}',
    "infinity": b'{"limit_microusd":Infinity}',
    "minus infinity": b'{"limit_microusd":-Infinity}',
    "float overflow": b'{"limit_microusd":1e999}',
    "leading zero": b'{"limit_microusd":01}',
    "33 levels": b'{"a":' * 33 + b"1" + b"}" * 33,
    "100,000 levels": b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "levels never closed": b'{"a":' * 100_000,
    "lone surrogate": b'{"name":"\\ud800"}',
    "lone low surrogate": b'{"name":"\\udc00x"}',
    "surrogate in UTF-8": b'{"name":"\xed\xa0\x80"}',
    "not UTF-8": b'{"name":"\xff"}',
    "UTF-16": '{"name":"x"}'.encode("utf-16"),
    "byte order mark": b'\xef\xbb\xbf{"name":"x"}',
    "NUL byte": b'{"name":"\x00"}',
    "unknown field": b'{"no_such_field":1}',
    "unknown field with NUL": b'{"no\\u0000":1}',
    "empty name": b'{"":1}',
    "form": b"name=x&limit_microusd=1",
    "same key twice": b'{"name":"a","name":"b"}',
    "same key twice, escaped": b'{"name":"a","n\\u0061me":"b"}',
    "same key twice, inside": b'{"price":{"a":1,"a":2}}',
    "2 to the 64": b'{"limit_microusd":18446744073709551616}',
    "100 digits": b'{"limit_microusd":' + b"9" * 100 + b"}",
    "more than a megabyte": b'{"name":"' + b"x" * (1 << 20) + b'"}',
    "a megabyte of spaces": b'{"no_such_field":1}' + b" " * (1 << 20),
}
TYPES: Final = (
    "text/plain",
    "text/json",
    "application/xml",
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=x",
    "application/json-patch+json",
    "application/octet-stream",
    "/",
    "json",
)
WRONG: Final[dict[type, tuple[Any, ...]]] = {
    str: ("\0", "a\0b", 5, True, ["x"], {"a": 1}, "x" * 5000),
    int: (2**63, 2**64 - 1, -(2**63), -1, 1.5, 1e30, True, "1", [1], {"a": 1}),
    list: ({"a": 1}, "x", 5, [None], [[]], ["\0"], ["x" * 5000]),
    dict: ([], "x", 5, {"no_such_field": 1}, {"\0": 1}),
}
"""In place of a good value of that type."""
BAD_IDS: Final = (
    "x",
    "0",
    "-1",
    "ten_",
    "\0",
    "ten_\0",
    "..",
    "../../etc",
    "a/b",
    "'; drop table x; --",
    "\u202e",
    "é" * 40,
    "{}",
    "%s",
    "tok_00000000000000000000000000",
    "x" * 5000,
)


class Route(NamedTuple):
    method: str
    path: str
    """As in the URL configuration."""


def routes() -> list[tuple[str, Any]]:
    found = [
        (str(one.pattern), one.callback.cls)  # type: ignore[attr-defined]
        for one in addresses._v1
        if isinstance(one, URLPattern)
    ]
    assert len(found) == len(addresses._v1)
    return found


WRITERS: Final = [
    Route(name, path) for path, view in routes() for name in WRITING if hasattr(view, name.lower())
]
each_writer = pytest.mark.parametrize("route", WRITERS, ids=" ".join)


class World:
    """A small installation and what changes in it."""

    def __init__(self) -> None:
        tenant = make_tenant()
        key = make_key(tenant, budgets=(day_budget(),)).key
        self.api = Api.of()
        budget = self.api("GET", "/budgets").json()["items"][0]["id"]
        self.ids = {
            "tenant_id": tenant.id,
            "key_id": key.id,
            "budget_id": budget,
            "pool_id": make_pool().id,
            "scope": "global",
            "request_id": "req_1",
        }

    def path(self, route: Route, **ids: str) -> str:
        path = route.path
        for name, value in (self.ids | ids).items():
            for kind in ("str", "path"):
                path = path.replace(f"<{kind}:{name}>", value)
        assert "<" not in path
        return f"/{path}"

    def good(self, route: Route) -> dict[str, Any]:
        text = json.dumps(GOOD[route])
        return dict(json.loads(text.replace("{tenant_id}", self.ids["tenant_id"])))

    def send(self, route: Route, body: Any, content_type: str = JSON, **ids: str) -> Any:
        data = body if isinstance(body, bytes) else orjson.dumps(body)
        return self.api.client.generic(
            route.method,
            f"/api/v1{self.path(route, **ids)}",
            data,
            content_type=content_type,
            headers={"Authorization": f"Bearer {self.api.token}"},
        )


@pytest.fixture
def world() -> Iterator[World]:
    broker.client().flushdb()
    made = World()
    before = fingerprint()
    yield made
    assert fingerprint() == before


def fingerprint() -> dict[str, list[str]]:
    """All rows of all tables of ours; when a token was last used is no change."""
    models: list[type[Model]] = [
        model
        for model in apps.get_models()
        if model.__module__.startswith(("console.", "telemetry.")) and model is not ManagementToken
    ]
    return {model.__name__: sorted(map(str, model._default_manager.values())) for model in models}


def told(answer: Any, *statuses: int) -> str:
    """What is wrong with the answer, empty if nothing."""
    fine = answer.status_code in statuses if statuses else 400 <= answer.status_code < 500
    if not fine:
        return f"{answer.status_code} {answer.content[:200]!r}"
    if answer["Content-Type"] != "application/problem+json":
        return f"{answer.status_code} {answer['Content-Type']}"
    document = answer.json()
    complete = document["status"] == answer.status_code and document["code"] and document["detail"]
    return "" if complete else str(document)


def test_every_writing_address_is_swept() -> None:
    assert set(WRITERS) == set(GOOD)


@each_writer
def test_a_good_body_is_taken(route: Route) -> None:
    """What the sweeps below change is the only thing wrong with their bodies."""
    broker.client().flushdb()
    made = World()
    if route.path == "rollback":
        made.api("POST", "/publish", {})
    if route.path != "pools/test":  # connects to what it is given
        body = b"" if route.method == "DELETE" else made.good(route)
        assert made.send(route, body).status_code in (200, 201)


@each_writer
def test_a_body_that_is_no_document_changes_nothing(route: Route, world: World) -> None:
    bodies = RAW if route in TAKES_NOTHING else {"nothing": b"", **RAW}
    faults = {name: told(world.send(route, body)) for name, body in bodies.items()}
    assert not {name: fault for name, fault in faults.items() if fault}


@each_writer
def test_a_body_of_another_type_changes_nothing(route: Route, world: World) -> None:
    body = orjson.dumps(world.good(route))
    faults = {kind: told(world.send(route, body, kind), 400, 415) for kind in TYPES}
    assert not {kind: fault for kind, fault in faults.items() if fault}


@each_writer
def test_one_wrong_value_anywhere_in_a_good_body_changes_nothing(
    route: Route, world: World
) -> None:
    good = world.good(route)
    faults = {}
    for place, value in leaves(good):
        for wrong in WRONG[type(value)]:
            fault = told(world.send(route, changed(good, place, wrong)))
            if fault:
                faults[place, str(wrong)[:40]] = fault
    assert not faults


@each_writer
def test_an_unknown_field_beside_good_ones_changes_nothing(route: Route, world: World) -> None:
    good = world.good(route)
    for place, value in [("", good), *leaves(good)]:
        if isinstance(value, dict):
            more = changed(good, place, {**value, "no_such_field": None})
            assert not told(world.send(route, more)), place


@each_writer
def test_a_wrong_id_in_the_address_changes_nothing(route: Route, world: World) -> None:
    body = b"" if route.method == "DELETE" else world.good(route)
    names = [name for name in world.ids if f":{name}>" in route.path]
    wrong = (*map(quote, BAD_IDS), "%ED%A0%80", "%FF", "%", world.ids["tenant_id"].lower())
    faults = {
        value[:40]: told(world.send(route, body, **{name: value}))
        for name in names
        for value in wrong
    }
    assert not {value: fault for value, fault in faults.items() if fault}


@pytest.mark.parametrize("path", [path for path, _ in routes()])
def test_a_method_the_address_does_not_have_changes_nothing(path: str, world: World) -> None:
    view = dict(routes())[path]
    own = {name.upper() for name in view.http_method_names if hasattr(view, name)} | {"HEAD"}
    for name in {"GET", *WRITING, "TRACE", "CONNECT", "PROPFIND", "FOO"} - own:
        answer = world.send(Route(name, path), {})
        assert not told(answer, 405), name
        assert set(answer["Allow"].split(", ")) <= own | {"OPTIONS"}


def test_a_body_in_chunks_is_read_like_any_other(world: World) -> None:
    """DRF takes a body without a declared length for none, and so a change for no change."""
    limit = 1 << 20
    for body, status in (
        (b'{"name":"a","name":"b"}', 400),
        (b'{"name":""}', 422),
        (b"", 400),
        (b'{"name":"' + b"x" * limit + b'"}', 413),
    ):
        assert not told(_in_chunks(world, body), status)


def _in_chunks(world: World, body: bytes) -> Any:
    tenant = world.ids["tenant_id"]
    path = f"/api/v1/tenants/{tenant}"
    headers = [
        (b"authorization", f"Bearer {world.api.token}".encode()),
        (b"content-type", b"application/json"),
        (b"transfer-encoding", b"chunked"),
    ]
    scope = {"type": "http", "method": "PATCH", "path": path, "headers": headers}
    request = ASGIRequest(scope | {"query_string": b""}, io.BytesIO(body))
    answer: Any = TenantDetail.as_view()(request, tenant_id=tenant)
    answer.render()
    answer.json = lambda: orjson.loads(answer.content)
    return answer


def leaves(value: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """JSON pointers of every value inside, objects and lists as well."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    for name, inner in pairs:
        yield f"{place}/{name}", inner
        if isinstance(inner, dict | list):
            yield from leaves(inner, f"{place}/{name}")


def changed(document: Any, place: str, value: Any) -> Any:
    """A copy with `value` at `place`."""
    if not place:
        return value
    copy = json.loads(json.dumps(document))
    *way, last = place.split("/")[1:]
    holder = copy
    for step in way:
        holder = holder[_step(holder, step)]
    holder[_step(holder, last)] = value
    return copy


def _step(holder: Any, step: str) -> Any:
    return int(step) if isinstance(holder, list) else step
