"""`ace`: what it asks of the management API, what it prints, and the exit codes it promises."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from console import cli
from console.launcher.runfile import Login, RunFile

CONSOLE = "http://127.0.0.1:1"
RUN = RunFile(
    CONSOLE, "http://127.0.0.1:2", Login("a", "b"), Login("c", "d"), "key", "m", "ace_mgmt_run"
)
WORKER = {"id": "w-0", "desired_version": 3, "actual_version": 3, "state": "ack", "ack_ms": 1.5}

Handler = Callable[[httpx.Request], httpx.Response]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("ACE_CONSOLE_URL", "ACE_GATEWAY_URL", "ACE_MANAGEMENT_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ACE_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def api(home: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Handler], list[httpx.Request]]:
    """Puts a running installation in place whose console answers with the given handler."""
    RUN.write(home)
    real = httpx.Client

    def install(handler: Handler) -> list[httpx.Request]:
        asked: list[httpx.Request] = []

        def answer(request: httpx.Request) -> httpx.Response:
            asked.append(request)
            return handler(request)

        client = partial(real, transport=httpx.MockTransport(answer))
        monkeypatch.setattr("console.cli.httpx.Client", client)
        return asked

    return install


def json_of(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


def test_workers_are_a_table_or_json(api: Any, capsys: pytest.CaptureFixture[str]) -> None:
    asked = api(lambda _: httpx.Response(200, json=[WORKER]))
    assert cli.main(["workers"]) == cli.DONE
    head, row = capsys.readouterr().out.splitlines()
    assert head.split() == list(WORKER)
    assert row.split() == ["w-0", "3", "3", "ack", "1.5"]
    assert cli.main(["workers", "-o", "json"]) == cli.DONE
    assert json_of(capsys) == [WORKER]
    assert {str(request.url) for request in asked} == {f"{CONSOLE}/api/v1/workers"}
    assert asked[0].headers["authorization"] == "Bearer ace_mgmt_run"


@pytest.mark.parametrize(("state", "code"), [("ack", cli.DONE), ("nack", cli.REFUSED)])
def test_status_is_bad_when_a_worker_is_behind(api: Any, state: str, code: int) -> None:
    api(lambda _: httpx.Response(200, json=[{**WORKER, "state": state}]))
    assert cli.main(["status"]) == code


def test_status_is_bad_without_any_worker(api: Any) -> None:
    api(lambda _: httpx.Response(200, json=[]))
    assert cli.main(["status"]) == cli.REFUSED


def test_a_key_is_created_with_its_budget(api: Any, capsys: pytest.CaptureFixture[str]) -> None:
    asked = api(lambda _: httpx.Response(201, json={"id": "key_1", "key": "ace_live_x", "more": 1}))
    arguments = ["keys", "create", "--tenant", "ten_1", "--name", "n", "--model", "m"]
    assert cli.main([*arguments, "--budget-microusd", "5", "-o", "json"]) == cli.DONE
    assert json_of(capsys) == {"id": "key_1", "key": "ace_live_x"}
    assert json.loads(asked[0].content) == {
        "tenant": "ten_1",
        "name": "n",
        "models": ["m"],
        "budgets": [{"limit_microusd": 5, "window": "month", "mode": "hard"}],
    }


def test_a_key_is_revoked(api: Any) -> None:
    asked = api(lambda _: httpx.Response(200, json={}))
    assert cli.main(["keys", "revoke", "key_1"]) == cli.DONE
    assert (asked[0].method, asked[0].url.path) == ("POST", "/api/v1/keys/key_1/revoke")


@pytest.mark.parametrize("text", ["../publish", "a?b", "", "a%2fb"])
def test_an_id_cannot_lead_to_another_address(api: Any, text: str) -> None:
    asked = api(lambda _: httpx.Response(200, json={}))
    assert cli.main(["keys", "revoke", text]) == cli.MISSING
    assert asked == []


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (401, cli.FORBIDDEN),
        (403, cli.FORBIDDEN),
        (404, cli.MISSING),
        (409, cli.REFUSED),
        (500, cli.REFUSED),
    ],
)
def test_a_refusal_has_the_words_of_the_api_and_its_own_code(
    api: Any, capsys: pytest.CaptureFixture[str], status: int, code: int
) -> None:
    body = {"detail": "No.", "errors": [{"pointer": "/note", "detail": "too long"}]}
    api(lambda _: httpx.Response(status, json=body))
    assert cli.main(["publish", "--note", "x"]) == code
    assert capsys.readouterr().err == "ace: No.\n  /note: too long\n"


def test_an_answer_that_is_no_problem_document_is_still_a_line(
    api: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    api(lambda _: httpx.Response(502, text="<html>"))
    assert cli.main(["publish"]) == cli.REFUSED
    assert capsys.readouterr().err == "ace: 502 Bad Gateway\n"


def test_a_console_that_is_away_has_its_own_code(api: Any) -> None:
    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("Connection refused", request=request)

    api(refuse)
    assert cli.main(["workers"]) == cli.UNREACHABLE


def test_nothing_running_and_nothing_given_is_said(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["workers"]) == cli.UNREACHABLE
    assert "make run" in capsys.readouterr().err


def test_the_token_of_this_installation_is_not_shown_to_another(api: Any) -> None:
    asked = api(lambda _: httpx.Response(200, json=[]))
    assert cli.main(["workers", "--console", "https://elsewhere.example"]) == cli.FORBIDDEN
    assert asked == []


@pytest.mark.enable_socket
def test_doctor_names_what_is_not_running(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["doctor", "-o", "json"])
    states = {each["check"]: each["state"] for each in json_of(capsys)}
    assert states["python"] == "ok"
    assert states["home"] == "ok"
    assert set(states) >= {"disk", "postgresql", "redis", "console", "gateway", "gpu"}


def test_wrong_usage_has_its_own_code() -> None:
    with pytest.raises(SystemExit) as stopped:
        cli.main(["nonsense"])
    assert stopped.value.code == 2


def test_an_explanation_is_readable_lines(api: Any, capsys: pytest.CaptureFixture[str]) -> None:
    attempt = {"attempt": 1, "decisions": {"candidates": ["ep_1", "ep_2"]}}
    api(lambda _: httpx.Response(200, json={"request_id": "req_1", "attempts": [attempt]}))
    assert cli.main(["explain", "req_1"]) == cli.DONE
    assert capsys.readouterr().out.splitlines() == [
        "request_id  req_1",
        "attempts:",
        "  attempt  1",
        "  decisions:",
        '    candidates  ["ep_1", "ep_2"]',
    ]
