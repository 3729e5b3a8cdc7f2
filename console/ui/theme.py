"""Light, dark or as the system has it: a cookie that the server reads, so that no page flashes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from django.http import HttpRequest, HttpResponse

COOKIE: Final = "ace_theme"
SYSTEM: Final = "system"
LABELS: Final = {SYSTEM: "Follow the system", "light": "Light", "dark": "Dark"}
_A_YEAR_S: Final = 365 * 24 * 3600


@dataclass(frozen=True, slots=True)
class Choice:
    value: str
    label: str
    current: bool


def theme_of(request: HttpRequest) -> str:
    theme = request.COOKIES.get(COOKIE, SYSTEM)
    return theme if theme in LABELS else SYSTEM


def choices(current: str) -> list[Choice]:
    return [Choice(value, label, value == current) for value, label in LABELS.items()]


def remember(response: HttpResponse, theme: str, *, secure: bool) -> None:
    """An unknown theme is the system's."""
    value = theme if theme in LABELS else SYSTEM
    response.set_cookie(
        COOKIE, value, max_age=_A_YEAR_S, secure=secure, httponly=True, samesite="Lax"
    )
