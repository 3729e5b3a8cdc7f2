"""Raw bytes against a real uvicorn process loop: what must be served, and what must be refused with which status."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import pytest

from tests.gateway.server.harness import Running, receive_all, running, statuses
from tests.gateway.server.payloads import PAYLOADS, SMUGGLED, Payload

pytestmark = pytest.mark.enable_socket


@pytest.fixture(scope="module", params=["own", "uvicorn"])
def server(request: pytest.FixtureRequest) -> Iterator[Running]:
    with running(request.param) as state:
        state.kind = request.param
        yield state


@pytest.mark.parametrize("payload", PAYLOADS, ids=lambda payload: payload.name)
def test_each_payload_gets_exactly_the_answers_it_deserves(
    server: Running, payload: Payload
) -> None:
    expected = payload.statuses
    if server.kind == "uvicorn" and payload.fallback is not None:
        expected = payload.fallback
    answer = server.ask(payload.data)
    assert statuses(answer) == expected, answer
    assert b"<reset>" not in answer


@pytest.mark.parametrize("payload", PAYLOADS, ids=lambda payload: payload.name)
def test_each_payload_gets_the_same_answers_one_byte_at_a_time(
    server: Running, payload: Payload
) -> None:
    """Only what is refused by its bytes, not by where a read ends, may be refused."""
    if len(payload.data) > 2000:
        pytest.skip("too long to send byte by byte")
    expected = payload.statuses
    if server.kind == "uvicorn" and payload.fallback is not None:
        expected = payload.fallback
    with server.connect() as client:
        with suppress(OSError):  # refused before the end
            for index in range(len(payload.data)):
                client.sendall(payload.data[index : index + 1])
        assert statuses(receive_all(client)) == expected


FRAMING = [
    payload
    for payload in PAYLOADS
    if payload.statuses == [400]
    and (b"transfer-encoding" in payload.data or payload.data.count(b"content-length") > 1)
]


@pytest.mark.parametrize("payload", FRAMING, ids=lambda payload: payload.name)
def test_doubtful_framing_ends_the_connection(server: Running, payload: Payload) -> None:
    assert b"/smuggled" not in server.ask(payload.data + SMUGGLED)


def test_nothing_failed_inside_the_server(server: Running) -> None:
    server.ask(PAYLOADS[0].data)
    assert server.failures == []
