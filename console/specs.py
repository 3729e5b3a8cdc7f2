"""What callers send, as strict documents: the same for a form, the management API, the command line and the seed.

An unknown field, a wrong type or an unprintable character is an error that names its place; nothing is coerced.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from typing import Annotated, Any, Final, TypeVar

import orjson
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from console.errors import InputError, problems_of

NAME_MAX: Final = 120
NOTE_MAX: Final = 1000
COUNT_MAX: Final = 1_000_000_000_000
"""Highest rate limit; fits every store on the way with room for sums."""


class Spec(BaseModel):
    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        use_attribute_docstrings=True,
        hide_input_in_errors=True,
    )


AnySpec = TypeVar("AnySpec", bound=BaseModel)


def parse(spec: type[AnySpec], values: Mapping[str, Any]) -> AnySpec:
    """From Python values, such as a form's cleaned data. Raises InputError with every problem found."""
    try:
        return spec.model_validate(dict(values))
    except ValidationError as error:
        raise _refusal(error) from None


def parse_json(spec: type[AnySpec], document: Any) -> AnySpec:
    """From a parsed JSON document: arrays become tuples and RFC 3339 texts become times."""
    try:
        return spec.model_validate_json(orjson.dumps(document))
    except ValidationError as error:
        raise _refusal(error) from None


def _refusal(error: ValidationError) -> InputError:
    problems = problems_of(error)
    return InputError("The input is not valid: see `errors`.", problems=problems)


def _line(text: str) -> str:
    """One printable line, composed and trimmed: NUL, line breaks, bidi controls and lone surrogates are refused."""
    text = text.strip()
    if not text:
        raise ValueError("must not be empty")
    if not text.isprintable():
        raise ValueError("must not hold control or invisible characters")
    return unicodedata.normalize("NFC", text)


def _prose(text: str) -> str:
    if not all(line.isprintable() for line in text.split("\n")):
        raise ValueError("must not hold control or invisible characters")
    return unicodedata.normalize("NFC", text.strip())


Line = Annotated[str, AfterValidator(_line)]
Name = Annotated[str, Field(min_length=1, max_length=NAME_MAX), AfterValidator(_line)]
Note = Annotated[str, Field(max_length=NOTE_MAX), AfterValidator(_prose)]
Count = Annotated[int, Field(ge=0, le=COUNT_MAX)]
