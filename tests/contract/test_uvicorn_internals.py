"""What we use of uvicorn that it does not promise. A new version must pass this before the pin is lifted."""

from __future__ import annotations

import inspect

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import Server, ServerState

from gateway.server.limits import ServerLimits
from gateway.server.protocol import protocol_factory


def test_the_version_is_the_one_that_was_read() -> None:
    assert uvicorn.__version__.startswith("0.54.")


def test_a_protocol_class_is_built_with_these_four_arguments() -> None:
    names = ["config", "server_state", "app_state", "_loop"]
    assert list(inspect.signature(HttpToolsProtocol).parameters) == names
    assert list(inspect.signature(protocol_factory(None, ServerLimits())).parameters) == names
    source = inspect.getsource(Server.startup)
    for name in names:
        assert f"{name}=" in source


def test_a_class_given_as_http_is_used_as_it_is() -> None:
    bound = protocol_factory(None, ServerLimits())
    config = uvicorn.Config("tests.contract.test_uvicorn_internals:application", http=bound)
    config.load()
    assert config.http_protocol_class is bound


def test_server_state_has_what_the_protocol_keeps() -> None:
    state = ServerState()
    assert state.total_requests == 0
    assert state.connections == set()
    assert state.tasks == set()
    assert "connection.shutdown()" in inspect.getsource(Server.shutdown)


def test_the_fallback_overrides_what_exists() -> None:
    for name in ("data_received", "on_message_begin", "on_url", "on_header", "on_headers_complete"):
        assert callable(getattr(HttpToolsProtocol, name))
    assert list(inspect.signature(HttpToolsProtocol.send_400_response).parameters) == [
        "self",
        "msg",
    ]
    assert "response_complete" in inspect.getsource(RequestResponseCycle.__init__)


async def application(scope: object, receive: object, send: object) -> None:
    """Something for Config to import."""
