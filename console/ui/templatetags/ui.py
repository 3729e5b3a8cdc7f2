"""The tags and filters of the design system: `{% load ui %}`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django import template
from django.forms import BaseForm, BoundField
from django.templatetags.static import static
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from console.ui import charts
from console.ui import format as form

register = template.Library()

register.filter("money", form.money)
register.filter("money_exact", form.money_exact)
register.filter("number", form.number)
register.filter("percent", form.percent)
register.filter("ms", form.milliseconds)
register.filter("duration", form.duration)
register.filter("stamp", form.stamp)
register.filter("day", form.day)
register.filter("initials", form.initials)
register.filter("visible", form.visible)


@register.simple_tag
def icon(name: str, classes: str = "") -> SafeString:
    """`{% icon "key" %}`: a symbol of the sprite. Always beside text, or in a control with a label."""
    return format_html(
        '<svg class="icon {}" aria-hidden="true"><use href="{}#i-{}"/></svg>',
        classes,
        static("icons/icons.svg"),
        name,
    )


@register.filter
def ago(moment: datetime | None) -> SafeString:
    """`12 s ago`, with the exact time and zone in the title."""
    return _timed(moment, form.ago(moment, timezone.now()))


@register.filter
def until(moment: datetime | None) -> SafeString:
    """Time left, with the exact time and zone in the title."""
    return _timed(moment, form.until(moment, timezone.now()))


def _timed(moment: datetime | None, words: str) -> SafeString:
    if moment is None:
        return format_html("{}", words)
    return format_html(
        '<time datetime="{}" title="{}">{}</time>', moment.isoformat(), form.stamp(moment), words
    )


@register.inclusion_tag("components/bar.html")
def limit_bar(used: int, reserved: int, limit: int, size: str = "") -> dict[str, Any]:
    """`{% limit_bar used reserved limit %}`: a bar with its words in the label."""
    return {"bar": charts.limit_bar(used, reserved, limit), "size": size}


@register.inclusion_tag("components/spark.html")
def spark(values: Sequence[float]) -> dict[str, Any]:
    return {"spark": charts.spark(values)}


@register.inclusion_tag("components/field.html")
def field(bound: BoundField, unit: str = "", prefix: str = "", classes: str = "") -> dict[str, Any]:
    """`{% field form.name %}`: label, control, help and error of one form field."""
    _describe(bound)
    return {"field": bound, "unit": unit, "prefix": prefix, "classes": classes}


def _describe(bound: BoundField) -> None:
    """Tie help and error to the control, so that a screen reader says them with it."""
    attrs = bound.field.widget.attrs
    ids = [f"{bound.id_for_label}_help"] if bound.help_text else []
    if bound.errors:
        attrs["aria-invalid"] = "true"
        ids.append(f"{bound.id_for_label}_error")
    if ids:
        attrs["aria-describedby"] = " ".join(ids)


@register.inclusion_tag("components/errors.html")
def errors(bound_form: BaseForm) -> dict[str, Any]:
    """`{% errors form %}`: the summary on top of a refused form, with a link to each field."""
    lines = [
        {"target": bound.id_for_label, "label": bound.label, "text": text}
        for bound in bound_form
        for text in bound.errors
    ]
    headline = getattr(bound_form, "headline", "")
    general = [text for text in bound_form.non_field_errors() if text != headline]
    count = len(lines) + len(general)
    return {"lines": lines, "general": general, "count": count, "headline": headline}


@register.inclusion_tag("components/pager.html", takes_context=True)
def pager(context: dict[str, Any], page: Any, target: str, noun: str) -> dict[str, Any]:
    """`{% pager page "#list" "keys" %}`: where the reader stands in a list, and the way on."""
    return {"request": context["request"], "page": page, "target": target, "noun": noun}
