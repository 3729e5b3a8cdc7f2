"""The real vLLM that `make test-vllm` has started, and the fake that is held against it."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator

import httpx
import pytest

from tests.fakes.engine import EngineOptions, FakeEngine, Limits

MODEL = "tiny"


@pytest.fixture(scope="session")
def real_url() -> str:
    url = os.environ.get("VLLM_BASE_URL")
    if not url:
        pytest.skip("VLLM_BASE_URL is not set: run `make test-vllm`")
    return url


@pytest.fixture(scope="session")
def adapter_path(real_url: str) -> str:
    return os.environ["VLLM_ADAPTER"]


@pytest.fixture
async def fake(real_url: str) -> AsyncIterator[FakeEngine]:
    """Started as the lane starts vLLM: same model name, sizes and switches."""
    options = EngineOptions(
        models=(MODEL,),
        limits=Limits(max_model_len=2048, block_tokens=128, num_blocks=1024, max_num_seqs=8),
        tool_parser=False,
        embeddings=False,
        kv_events=True,
    )
    async with FakeEngine(options) as engine:
        yield engine


class Pair:
    """The same request to both."""

    def __init__(self, real: httpx.AsyncClient, fake: httpx.AsyncClient) -> None:
        self.real = real
        self.fake = fake

    async def send(
        self, method: str, path: str, **arguments: object
    ) -> tuple[httpx.Response, httpx.Response]:
        """The real answer and the fake one."""
        real = await self.real.request(method, path, **arguments)  # type: ignore[arg-type]
        fake = await self.fake.request(method, path, **arguments)  # type: ignore[arg-type]
        return real, fake


@pytest.fixture
async def pair(real_url: str, fake: FakeEngine) -> AsyncIterator[Pair]:
    async with (
        httpx.AsyncClient(base_url=real_url, trust_env=False, timeout=60) as real,
        httpx.AsyncClient(base_url=fake.url, trust_env=False, timeout=60) as pretended,
    ):
        yield Pair(real, pretended)
