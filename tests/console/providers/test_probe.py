from __future__ import annotations

import ipaddress
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import orjson
import pytest

from console.providers.probe import STEPS, Step, Target, probe
from console.settings.operator import Operator

pytestmark = pytest.mark.enable_socket
LOOPBACK = Operator(allowed_networks=(ipaddress.ip_network("127.0.0.0/8"),))
MODELS = {"data": [{"id": "llama"}]}
ANSWER = {"choices": [{"message": {"content": "H"}}]}

Reply = tuple[int, dict[str, str], bytes]


class Provider:
    """A provider that says what a test tells it to, and notes what it was asked."""

    def __init__(self) -> None:
        self.replies: dict[str, Reply] = {}
        self.asked: list[tuple[str, str, dict[str, str]]] = []
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def says(self, path: str, document: object, status: int = 200, **headers: str) -> None:
        self.replies[path] = (status, headers, orjson.dumps(document))

    def _handler(outer) -> type[BaseHTTPRequestHandler]:  # noqa: N805 - the handler has a self of its own
        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                length = int(self.headers.get("content-length") or 0)
                self.rfile.read(length)
                outer.asked.append((self.command, self.path, dict(self.headers)))
                status, headers, body = outer.replies.get(self.path, (404, {}, b"{}"))
                self.send_response(status)
                for name, value in {**headers, "content-length": str(len(body))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = answer  # noqa: N815 - names the base class calls

            def log_message(self, *_: object) -> None:
                return

        return Handler


@pytest.fixture
def provider() -> Iterator[Provider]:
    found = Provider()
    found.says("/v1/models", MODELS)
    found.says("/v1/chat/completions", ANSWER)
    found.says("/v1/messages", {"content": []})
    thread = threading.Thread(target=found.server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield found
    found.server.shutdown()
    found.server.server_close()
    thread.join(5)


def run(provider: Provider, engine: str = "vllm", credential: str | None = None) -> list[Step]:
    return probe(Target(provider.url, engine, "llama", credential), LOOPBACK)


def failed(steps: list[Step]) -> Step:
    (found,) = [step for step in steps if step.state == "failed"]
    rest = steps[steps.index(found) + 1 :]
    assert all(step.state == "skipped" for step in rest)
    return found


def test_a_good_provider_passes_every_step_in_order(provider: Provider) -> None:
    steps = run(provider, credential="sk-1")
    assert [step.name for step in steps] == list(STEPS)
    assert {step.state for step in steps} == {"passed"}
    assert all(headers["authorization"] == "Bearer sk-1" for _, _, headers in provider.asked)


def test_anthropic_is_asked_in_its_own_dialect(provider: Provider) -> None:
    assert {step.state for step in run(provider, "anthropic", "sk-1")} == {"passed"}
    method, path, headers = provider.asked[-1]
    assert (method, path, headers["x-api-key"]) == ("POST", "/v1/messages", "sk-1")


@pytest.mark.parametrize(
    ("break_it", "name", "words"),
    [
        (lambda p: p.says("/v1/models", {}, 401), "models", "provider key is missing or wrong"),
        (lambda p: p.says("/v1/models", {}, 302, location="http://x/"), "models", "redirected"),
        (lambda p: p.says("/v1/models", {}, 500), "models", "status 500"),
        (lambda p: p.says("/v1/models", {"data": [{"id": "qwen"}]}), "models", "there are: qwen"),
        (lambda p: p.says("/v1/models", [1, None]), "models", "no list of models"),
        (lambda p: p.says("/v1/models", "x" * (2 << 20)), "models", "longer than a megabyte"),
        (lambda p: p.says("/v1/chat/completions", {}, 403), "token", "provider key"),
        (lambda p: p.says("/v1/chat/completions", {"odd": 1}), "token", "not one of this protocol"),
    ],
    ids=["key", "redirect", "error", "other-model", "no-list", "endless", "forbidden", "odd"],
)
def test_each_fault_is_told_in_plain_words_at_its_step(
    provider: Provider, break_it: Callable[[Provider], None], name: str, words: str
) -> None:
    break_it(provider)
    step = failed(run(provider))
    assert step.name == name
    assert words in step.detail


def test_a_redirect_is_never_followed(provider: Provider) -> None:
    provider.says("/v1/models", {}, 302, location=f"{provider.url}/secret")
    run(provider)
    assert [path for _, path, _ in provider.asked] == ["/v1/models"]


def test_a_closed_port_fails_at_tcp() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    assert failed(probe(Target(f"http://127.0.0.1:{port}", "vllm", "m"), LOOPBACK)).name == "tcp"


def test_what_may_not_be_reached_is_not_connected_to(provider: Provider) -> None:
    step = failed(probe(Target(provider.url, "vllm", "llama"), Operator()))
    assert step.name == "dns"
    assert provider.asked == []


def test_a_proxy_of_the_environment_is_not_used(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert {step.state for step in run(provider)} == {"passed"}
