"""Value types with their units; every document, form and API field is built from these."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

MicroUSD = Annotated[int, Field(ge=0, le=9_000_000_000_000_000)]
"""Millionths of a US dollar. Money is always an integer."""

Region = Annotated[str, Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$", max_length=40)]
"""A region name as the operator spells it, such as `eu-west-1`. There is no wildcard region."""

ModelName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:/-]*$", max_length=120)]
"""The public name an application asks for."""

Slug = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$", max_length=40)]
Identifier = Annotated[str, Field(pattern=r"^[a-z]+_[0-9A-Za-z]+$", max_length=64)]
"""Type prefix, underscore, ULID: `key_01J…`."""

Ratio = Annotated[float, Field(ge=0.0, le=1.0)]
Percent = Annotated[int, Field(ge=0, le=100)]
Mode = Literal["off", "observe", "shadow", "enforce"]
Engine = Literal["vllm", "sglang", "trtllm", "openai", "anthropic"]
BudgetWindow = Literal["day", "week", "month", "total"]
BudgetMode = Literal["hard", "soft"]
