"""Forms for pools, their endpoints and prices."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from django import forms
from django.http import QueryDict

from console.errors import Problem
from console.providers.models import Engine
from console.ui.edition import edition_field
from console.ui.forms import ConsoleForm, CountField, MoneyField

PER_MILLION = "per million tokens"
_PLAIN = {"autocomplete": "off", "spellcheck": "false"}


@dataclass(slots=True)
class Line:
    """One endpoint as it was typed."""

    base_url: str = ""
    region: str = ""
    errors: list[str] = field(default_factory=list)


class EndpointLines:
    """The endpoints of a form: any number of lines, of which blank ones do not count."""

    def __init__(self, lines: Iterable[Line]) -> None:
        self.filled = [line for line in lines if line.base_url or line.region]

    @classmethod
    def from_post(cls, data: QueryDict) -> EndpointLines:
        pairs = zip(data.getlist("base_url"), data.getlist("region"), strict=False)
        return cls(Line(url.strip(), region.strip()) for url, region in pairs)

    @property
    def shown(self) -> list[Line]:
        """With one blank line to go on with; without script it is the only way to add one."""
        return [*self.filled, Line()]

    @property
    def values(self) -> tuple[dict[str, Any], ...]:
        return tuple({"base_url": e.base_url, "region": e.region or None} for e in self.filled)

    def take(self, problems: Sequence[Problem]) -> list[Problem]:
        """Keep the problems that point at a line; hand back the rest."""
        rest = []
        for problem in problems:
            parts = problem.pointer.split("/")
            if parts[1:2] == ["endpoints"] and len(parts) > 2 and parts[2].isdigit():  # noqa: PLR2004
                self.filled[int(parts[2])].errors.append(_words(parts[-1], problem.message))
            else:
                rest.append(problem)
        return rest

    @property
    def errors(self) -> list[str]:
        return [text for line in self.filled for text in line.errors]


def _words(name: str, message: str) -> str:
    if name == "region":
        return (
            "The region must be lower-case letters, digits and single hyphens, such as eu-west-1."
        )
    return message


class PriceForm(ConsoleForm):
    """In dollars a million tokens, as providers publish them."""

    input_price = MoneyField(label="Input", required=False)
    output_price = MoneyField(label="Output", required=False)
    cached_price = MoneyField(
        label="Cached input", required=False, help_text="Empty: charged as input."
    )

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        have = [cleaned.get(name) is not None for name in ("input_price", "output_price")]
        if any(have) and not all(have) and not self.errors:
            missing = "output_price" if have[0] else "input_price"
            self.add_error(missing, "A price needs both input and output. Enter 0 for free.")
        if cleaned.get("cached_price") is not None and not any(have) and not self.errors:
            self.add_error(
                "input_price", "A cached price alone says nothing. Enter input and output."
            )
        return cleaned

    def price(self) -> dict[str, int | None] | None:
        """As `PriceSpec` wants it; None: no price was given."""
        data = self.cleaned_data
        if data.get("input_price") is None:
            return None
        return {
            "input_microusd_per_mtok": data["input_price"],
            "output_microusd_per_mtok": data["output_price"],
            "cached_input_microusd_per_mtok": data["cached_price"],
        }


class NewPriceForm(PriceForm):
    """On the page of a pool, where a price is the whole point."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name in ("input_price", "output_price"):
            self.fields[name].required = True


def _credential(help_text: str) -> forms.CharField:
    return forms.CharField(
        label="Provider key",
        required=False,
        max_length=4096,
        help_text=help_text,
        widget=forms.PasswordInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )


def _output_tokens() -> CountField:
    return CountField(
        label="Longest answer",
        required=True,
        min_value=1,
        max_value=10_000_000,
        initial=4096,
        help_text="Put on requests that name no limit; money is held for it.",
    )


def _upstream_model() -> forms.CharField:
    return forms.CharField(
        label="Name at the engine",
        required=False,
        max_length=120,
        help_text="Empty: the same as the public name.",
        widget=forms.TextInput(attrs=_PLAIN),
    )


class PoolForm(PriceForm):
    """A new pool with its endpoints and price."""

    name = forms.CharField(
        label="Pool name",
        max_length=120,
        widget=forms.TextInput(attrs=_PLAIN | {"autofocus": True}),
    )
    engine = forms.ChoiceField(label="Engine or protocol", choices=Engine.choices)
    model = forms.CharField(
        label="Public model name",
        max_length=120,
        help_text="What applications ask for. Pools with the same name share the work.",
        widget=forms.TextInput(attrs=_PLAIN),
    )
    upstream_model = _upstream_model()
    max_output_tokens = _output_tokens()
    credential = _credential(
        "Kept encrypted and never shown again. Empty where the engine wants none."
    )


class PoolEditForm(ConsoleForm):
    """Engine and public model stay: another model is another pool."""

    version = edition_field()
    name = forms.CharField(label="Pool name", max_length=120, widget=forms.TextInput(attrs=_PLAIN))
    upstream_model = _upstream_model()
    max_output_tokens = _output_tokens()
    credential = _credential("Empty keeps the stored one.")
    forget_credential = forms.BooleanField(
        label="Take the stored provider key away", required=False
    )
    enabled = forms.BooleanField(label="In use: may be sent requests", required=False)
