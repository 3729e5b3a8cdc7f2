"""Deterministic embeddings: equal texts give equal unit vectors, different ones nearly orthogonal ones."""

from __future__ import annotations

import base64
import math
import struct
from random import Random
from typing import Any
from zlib import crc32

from tests.fakes.engine.asks import Body
from tests.fakes.engine.dialects.base import Dialect
from tests.fakes.engine.lexicon import Lexicon

DIMENSIONS = 64


def embedding_answer(dialect: Dialect, body: Body, words: Lexicon) -> dict[str, Any]:
    """The body of an answer to /v1/embeddings.

    Raises:
        EngineError: The model is unknown or there is no input.
    """
    model, _ = dialect.resolve(body, {})
    given = body.get("input")
    if not given:
        raise dialect.bad("input must not be empty", "input")
    items = [given] if isinstance(given, str) or isinstance(given[0], int) else given
    tokens = [words.encode(item) if isinstance(item, str) else list(item) for item in items]
    wanted = body.get("dimensions") or DIMENSIONS
    packed = body.get("encoding_format") == "base64"
    data = [
        {
            "object": "embedding",
            "index": index,
            "embedding": _shown(_vector(item, wanted), packed=packed),
        }
        for index, item in enumerate(tokens)
    ]
    count = sum(map(len, tokens))
    usage = {"prompt_tokens": count, "total_tokens": count}
    return {"object": "list", "data": data, "model": model, "usage": usage}


def _vector(tokens: list[int], dimensions: int) -> list[float]:
    dice = Random(crc32(repr(tokens).encode()))
    raw = [dice.gauss(0.0, 1.0) for _ in range(dimensions)]
    length = math.sqrt(sum(x * x for x in raw))
    return [x / length for x in raw]


def _shown(vector: list[float], *, packed: bool) -> list[float] | str:
    if not packed:
        return vector
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
