"""Errors that services raise; forms show them beside the field, the management API as a problem document.

InputError    the caller sent something wrong           422 (400 when it cannot be parsed)
Missing       it does not exist, or not for this caller 404
Conflict      it exists, but the state forbids the act  409
Unavailable   something we depend on is down            503
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pydantic import ValidationError


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong. `pointer` is a JSON pointer into the input; empty: the whole of it."""

    pointer: str
    message: str
    code: str = "invalid"
    scope: str = ""
    """Policy document the pointer points into, when it is not the input itself."""


class ConsoleError(Exception):
    """`code` is stable snake_case; `problems` names the fields."""

    code = "error"

    def __init__(self, detail: str, *, code: str = "", problems: Iterable[Problem] = ()) -> None:
        super().__init__(detail)
        self.detail = detail
        self.code = code or type(self).code
        self.problems = tuple(problems)


class InputError(ConsoleError):
    code = "invalid_input"

    @classmethod
    def at(cls, pointer: str, message: str, code: str = "invalid") -> InputError:
        return cls(message, problems=[Problem(pointer, message, code)])


class Missing(ConsoleError):  # noqa: N818 - reads as the state it is
    code = "not_found"


class Conflict(ConsoleError):  # noqa: N818
    code = "conflict"


class Unavailable(ConsoleError):  # noqa: N818
    code = "unavailable"


def problems_of(error: ValidationError) -> list[Problem]:
    """Pydantic's findings without the input they were found in, which may hold a secret."""
    return [
        Problem(
            "".join(f"/{_escape(part)}" for part in found["loc"]),
            found["msg"].removeprefix("Value error, "),
            found["type"],
        )
        for found in error.errors(include_url=False, include_context=False, include_input=False)
    ]


def _escape(part: int | str) -> str:
    """RFC 6901: `~` and `/` are the two characters a pointer must escape."""
    return str(part).replace("~", "~0").replace("/", "~1")
