"""What callers send about pools."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from console.specs import Line, Name, Spec
from policies.schema.units import Engine, MicroUSD, ModelName, Region

MAX_ENDPOINTS = 500
MAX_OUTPUT_TOKENS = 10_000_000

Credential = Annotated[str, Field(min_length=1, max_length=4096, pattern=r"^[\x21-\x7e]+$")]
"""Goes into a header, so it is visible ASCII."""


class PriceSpec(Spec):
    """Micro-dollars for a million tokens."""

    input_microusd_per_mtok: MicroUSD
    output_microusd_per_mtok: MicroUSD
    cached_input_microusd_per_mtok: MicroUSD | None = None
    """None: cached input costs what input costs."""


class EndpointSpec(Spec):
    base_url: Annotated[Line, Field(min_length=1, max_length=300)]
    """Scheme, host, port and optional path prefix, without `/v1`."""
    region: Region | None = None
    """None: unknown, so no fenced tenant is ever sent there."""


Endpoints = Annotated[tuple[EndpointSpec, ...], Field(max_length=MAX_ENDPOINTS)]
OutputTokens = Annotated[int, Field(ge=1, le=MAX_OUTPUT_TOKENS)]


class PoolSpec(Spec):
    name: Name
    model: ModelName
    """The public name applications ask for."""
    engine: Engine
    endpoints: Endpoints = ()
    price: PriceSpec | None = None
    """None: unknown; the pool refuses work until it has one."""
    upstream_model: ModelName | None = None
    """Name the engine knows; None: the public name."""
    max_output_tokens: OutputTokens = 4096
    credential: Credential | None = None
    """Provider key. Write only: no answer ever holds it."""


class PoolPatch(Spec):
    """Only what is sent is changed; endpoints are replaced as a whole."""

    name: Name = ""
    endpoints: Endpoints = ()
    price: PriceSpec | None = None
    upstream_model: ModelName | None = None
    max_output_tokens: OutputTokens = 4096
    enabled: bool = True
    credential: Credential | None = None
    """None takes the stored one away; to keep it, leave the field out."""
