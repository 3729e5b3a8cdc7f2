"""Servers for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.gateway.server.harness import Running, echo, running


@pytest.fixture(scope="module")
def shared() -> Iterator[Running]:
    with running("own") as state:
        yield state


@pytest.fixture
def server(shared: Running) -> Iterator[Running]:
    handler = shared.handler
    handler.script = echo
    handler.bodies.clear()
    handler.identities.clear()
    handler.events.clear()
    shared.failures.clear()
    yield shared
    assert shared.failures == []


@pytest.fixture(params=["own", "uvicorn"])
def either(request: pytest.FixtureRequest) -> Iterator[Running]:
    with running(request.param) as state:
        yield state
