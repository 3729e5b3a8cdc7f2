"""What each kind of engine takes. Engines disagree about unknown fields, so nothing is sent on a guess."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

CHAT: Final = "/v1/chat/completions"
COMPLETIONS: Final = "/v1/completions"
EMBEDDINGS: Final = "/v1/embeddings"


@dataclass(frozen=True, slots=True)
class Capabilities:
    """Facts of one kind of engine that the request rewriter and the head template need."""

    name: str
    routes: frozenset[str] = frozenset((CHAT, COMPLETIONS, EMBEDDINGS))
    """Routes of ours that exist there under the same path."""
    output_cap_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    stream_usage: bool = True
    """Whether `stream_options.include_usage` may be set."""
    auth_header: bytes = b"authorization"
    auth_scheme: bytes = b"Bearer "
    injectable: frozenset[str] = frozenset()
    """Engine-control fields the gateway itself may add."""
    dropped: frozenset[str] = frozenset()
    """Client fields this engine refuses as unknown and whose loss changes no answer."""
    refused: frozenset[str] = frozenset()
    """Client fields this engine does not have and whose loss would change the answer: refused by name."""
    health_path: str | None = "/health"
    """None: the provider has no health route; its state stays unknown until traffic tells."""
    health_interval_s: float = 5.0
    extra_headers: tuple[tuple[bytes, bytes], ...] = field(default=())
