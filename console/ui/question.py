"""Confirmation of an act: names the object, says the effect, and asks for the name where there is no way back."""

from __future__ import annotations

from dataclasses import dataclass, replace

from django.http import HttpRequest, HttpResponse

from console.ui.http import UNPROCESSABLE, render_page

TEMPLATE = "console/confirm.html"


@dataclass(frozen=True, slots=True)
class Question:
    title: str
    effect: str
    submit: str
    back_url: str
    back_label: str
    bad: bool = False
    typed: str = ""
    """Text to be typed first; only for what cannot be undone."""
    url: str = ""
    refused: str = ""


def ask(request: HttpRequest, question: Question, status: int = 200) -> HttpResponse:
    """The question as a page, or as the content of a dialog when htmx asks."""
    context = {"question": replace(question, url=request.path)}
    return render_page(request, TEMPLATE, context, part="question", status=status)


def answered(request: HttpRequest, question: Question) -> bool:
    """Whether the text was typed as asked. Without a text to type, the post itself is the answer."""
    return not question.typed or request.POST.get("typed", "").strip() == question.typed


def ask_again(request: HttpRequest, question: Question, reason: str = "") -> HttpResponse:
    words = reason or f"Type {question.typed} exactly as it is written. Nothing was changed."
    return ask(request, replace(question, refused=words), status=UNPROCESSABLE)
