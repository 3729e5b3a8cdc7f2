"""The official client on every route, through real processes and a fake vLLM: answered, billed, explained."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import openai
import pytest

from tests.fakes.engine import EngineOptions, FakeEngineProcess
from tests.support.stack import Stack

pytestmark = [pytest.mark.integration, pytest.mark.enable_socket, pytest.mark.timeout(120)]


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder: Path = tmp_path_factory.mktemp("routes")
    with (
        FakeEngineProcess(EngineOptions(models=("m",)), folder / "truth.jsonl") as fleet,
        Stack() as stack,
    ):
        stack.api.make_pool("m", fleet.urls)
        yield stack


@pytest.fixture(scope="module")
def client(stack: Stack) -> openai.OpenAI:
    budget = {"limit_microusd": 1_000_000, "window": "day", "mode": "hard"}
    key = stack.api.make_key(stack.api.make_tenant(), budgets=[budget])
    stack.settle()
    return stack.client(key.key)


def test_many_prompts_are_answered_and_billed_together(stack: Stack, client: openai.OpenAI) -> None:
    rows = len(stack.ledger())
    answer = client.completions.create(model="m", prompt=["one", "two"], max_tokens=8, n=2)
    assert len(answer.choices) == 4
    assert answer.usage is not None
    row = stack.wait_ledger(rows + 1)[-1]
    tokens = (answer.usage.prompt_tokens, answer.usage.completion_tokens)
    assert (row["input_tokens"], row["output_tokens"], row["usage_source"]) == (*tokens, "engine")


def test_text_is_streamed_and_its_usage_hidden_but_billed(
    stack: Stack, client: openai.OpenAI
) -> None:
    rows = len(stack.ledger())
    with client.completions.create(model="m", prompt="tell", max_tokens=12, stream=True) as events:
        chunks = list(events)
    assert "".join(choice.text for chunk in chunks for choice in chunk.choices)
    assert all(chunk.usage is None for chunk in chunks)
    row = stack.wait_ledger(rows + 1)[-1]
    assert (row["outcome"], row["usage_source"]) == ("ok", "engine")
    assert 0 < row["output_tokens"] <= 12


@pytest.mark.parametrize("packed", ["float", "base64"])
def test_vectors_cost_their_input_alone(stack: Stack, client: openai.OpenAI, packed: str) -> None:
    rows = len(stack.ledger())
    answer = client.embeddings.create(
        model="m",
        input=["a text", "another"],
        encoding_format="float" if packed == "float" else "base64",
    )
    assert len(answer.data) == 2
    row = stack.wait_ledger(rows + 1)[-1]
    assert (row["input_tokens"], row["output_tokens"]) == (answer.usage.prompt_tokens, 0)
    assert row["usage_source"] == "engine"


def test_what_is_wrong_reaches_no_engine(stack: Stack, client: openai.OpenAI) -> None:
    rows = len(stack.ledger())
    with pytest.raises(openai.BadRequestError) as caught:
        client.completions.create(model="m", prompt=[])
    assert caught.value.param == "prompt"
    with pytest.raises(openai.BadRequestError) as caught:
        client.embeddings.create(model="m", input=[])
    assert caught.value.param == "input"
    client.embeddings.create(model="m", input="x")
    assert len(stack.wait_ledger(rows + 1)) == rows + 1
