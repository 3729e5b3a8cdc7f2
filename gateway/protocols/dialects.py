"""The routes that pass the pipeline, by their raw path."""

from __future__ import annotations

from typing import Final

from gateway.protocols import openai_chat, openai_completions, openai_embeddings
from gateway.protocols.inference import Dialect

DIALECTS: Final[dict[bytes, Dialect]] = {
    module.DIALECT.route: module.DIALECT
    for module in (openai_chat, openai_completions, openai_embeddings)
}
