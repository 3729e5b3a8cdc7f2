from __future__ import annotations

import httpx2
import openai
import orjson
import pytest

from gateway.protocols.errors import (
    CODES,
    Refused,
    budget_exceeded,
    openai_stream_error,
    render_openai,
)


def rendered(refused: Refused) -> tuple[int, dict[str, str], dict[str, object]]:
    head, _, body = render_openai(refused, "req_1", 7).partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines)
    assert headers["content-length"] == str(len(body))
    return int(status.split(" ")[1]), headers, orjson.loads(body)["error"]


@pytest.mark.parametrize("code", sorted(CODES))
def test_each_code_is_a_whole_answer_in_the_openai_dialect(code: str) -> None:
    status, headers, error = rendered(Refused(code))
    assert status == CODES[code].status
    assert (error["code"], error["type"]) == (code, CODES[code].type)
    assert error["message"]
    assert headers["x-request-id"] == "req_1"
    assert headers["x-ace-error-origin"] == CODES[code].origin
    assert headers["x-ace-policy-version"] == "7"


def test_retry_advice_is_given_in_both_units_and_rounds_up() -> None:
    _, headers, _ = rendered(Refused("rate_limit_exceeded", retry_after_ms=1001))
    assert headers["retry-after"] == "2"
    assert headers["retry-after-ms"] == "1001"
    assert headers["x-should-retry"] == "true"


def test_a_budget_refusal_names_the_budget_its_use_and_its_reset() -> None:
    refused = budget_exceeded(
        "team", used_microusd=9, limit_microusd=10, resets_at="2026-12-02T00:00:00Z"
    )
    status, headers, error = rendered(refused)
    assert (status, headers["x-should-retry"]) == (429, "false")
    for part in ("'team'", "9 of 10", "2026-12-02T00:00:00Z"):
        assert part in str(error["message"])
    assert error["ace"] == {
        "request_id": "req_1",
        "origin": "gateway",
        "budget": "team",
        "used_microusd": 9,
        "limit_microusd": 10,
        "resets_at": "2026-12-02T00:00:00Z",
    }


def test_no_text_can_start_a_new_header() -> None:
    text = render_openai(Refused("not_ready", 'a"\r\nx-evil: 1'), "req\r\nx-evil: 1", None)
    head = text.partition(b"\r\n\r\n")[0]
    assert b"\r\nx-evil" not in head
    assert b"x-ace-policy-version" not in head


def test_an_unknown_code_is_a_bug_and_not_a_new_error() -> None:
    with pytest.raises(KeyError):
        Refused("made_up")


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("invalid_api_key", openai.AuthenticationError),
        ("model_not_allowed", openai.PermissionDeniedError),
        ("budget_exceeded", openai.RateLimitError),
        ("upstream_timeout", openai.InternalServerError),
        ("invalid_request", openai.BadRequestError),
    ],
)
def test_the_official_client_understands_our_errors(
    code: str, kind: type[openai.APIStatusError]
) -> None:
    def answer(request: httpx2.Request) -> httpx2.Response:
        head, _, body = render_openai(Refused(code, param="p"), "req_1", 7).partition(b"\r\n\r\n")
        lines = [line.split(b": ", 1) for line in head.split(b"\r\n")[1:]]
        pairs = [(name, value) for name, value in lines]
        return httpx2.Response(CODES[code].status, headers=pairs, content=body)

    client = openai.OpenAI(
        api_key="k",
        base_url="http://gateway/v1",
        max_retries=0,
        http_client=httpx2.Client(transport=httpx2.MockTransport(answer)),
    )
    with pytest.raises(kind) as caught:
        client.models.list()
    assert (caught.value.code, caught.value.param) == (code, "p")
    assert caught.value.request_id == "req_1"


def test_the_official_client_raises_on_an_error_within_a_stream() -> None:
    event = openai_stream_error(Refused("upstream_timeout"), "req_1")
    stream = b'data: {"id":"a","choices":[]}\n\n' + event

    def answer(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=stream)

    client = openai.OpenAI(
        api_key="k",
        base_url="http://gateway/v1",
        http_client=httpx2.Client(transport=httpx2.MockTransport(answer)),
    )
    chunks = client.chat.completions.create(
        model="m", messages=[{"role": "user", "content": "a"}], stream=True
    )
    assert next(chunks).id == "a"
    with pytest.raises(openai.APIError, match="did not answer in time"):
        next(chunks)
