"""No secret is written anywhere: not in logs, files, Redis or the database, however a request failed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import httpx
import openai
import psycopg
import pytest

from tests.fakes.engine import EngineOptions, FakeEngineProcess, credential_mark
from tests.support.stack import Stack

pytestmark = [pytest.mark.integration, pytest.mark.enable_socket, pytest.mark.timeout(120)]

PROVIDER_KEY = "sk-provider-4f1c09b7d2e84a6f"
QUESTION = [{"role": "user", "content": "Is anybody listening?"}]


def test_keys_and_credentials_are_written_nowhere(tmp_path: Path) -> None:
    with (
        FakeEngineProcess(EngineOptions(models=("m",)), tmp_path / "truth.jsonl") as fleet,
        Stack(workers=1, processes=("console", "gateway", "ingest", "worker")) as stack,
    ):
        tenant = stack.api.make_tenant()
        stack.api.make_pool("m", fleet.urls, engine="openai", credential=PROVIDER_KEY)
        issued = stack.api.make_key(tenant)
        management = stack.api.http.headers["authorization"].removeprefix("Bearer ")
        stack.settle()
        _use_well_and_badly(stack, issued.key)
        stack.wait_ledger(1)
        secrets = (issued.key, management, PROVIDER_KEY)
        found = [
            f"{place} holds a secret"
            for place, content in (*_files(stack.home), *_redis(stack), *_tables(stack))
            if any(secret.encode() in content for secret in secrets)
        ]
        assert not found
        sent = [r.headers["authorization"] for r in fleet.records() if r.kind == "accepted"]
    assert sent == [credential_mark(f"Bearer {PROVIDER_KEY}")]


def _use_well_and_badly(stack: Stack, key: str) -> None:
    client = stack.client(key)
    client.chat.completions.create(model="m", messages=QUESTION)  # type: ignore[arg-type]
    with contextlib.suppress(openai.APIStatusError):
        client.chat.completions.create(model="unknown", messages=QUESTION)  # type: ignore[arg-type]
    almost = stack.client(key[:-1] + ("0" if key[-1] != "0" else "1"))
    with contextlib.suppress(openai.APIStatusError):
        almost.chat.completions.create(model="m", messages=QUESTION)  # type: ignore[arg-type]
    # A secret in the wrong place: the address. Nothing may log it either.
    with httpx.Client(trust_env=False) as stranger:
        stranger.get(f"{stack.gateway_url}/v1/models", params={"api_key": key})
    stack.api.http.post("/tenants", json={"name": {"key": key}})


def _files(home: Path) -> Iterator[tuple[str, bytes]]:
    for path in home.rglob("*"):
        with contextlib.suppress(OSError):
            if path.is_file():
                yield str(path.relative_to(home)), path.read_bytes()


def _redis(stack: Stack) -> Iterator[tuple[str, bytes]]:
    with stack.redis() as client:
        for key in client.scan_iter("*"):
            dumped = client.dump(key)
            yield f"redis {key!r}", dumped if isinstance(dumped, bytes) else b""


def _tables(stack: Stack) -> Iterator[tuple[str, bytes]]:
    names = stack.rows("select tablename from pg_tables where schemaname = 'public'")
    with psycopg.connect(stack.settings.database_url) as connection:
        for row in names:
            query = f"copy {row['tablename']} to stdout"
            with connection.cursor().copy(query.encode()) as copy:
                yield f"table {row['tablename']}", b"".join(bytes(part) for part in copy)
