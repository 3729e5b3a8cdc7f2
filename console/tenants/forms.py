"""Forms for tenants."""

from __future__ import annotations

import re
from typing import Any

from django import forms
from django.core.exceptions import ValidationError

from console.ui.edition import edition_field
from console.ui.forms import ConsoleForm, WordsField

REGION = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
REGION_MAX = 40
REGIONS_MAX = 200


class TenantForm(ConsoleForm):
    version = edition_field()
    name = forms.CharField(
        label="Name",
        max_length=120,
        help_text="A team, a customer or a product. Shown in lists, bills and refusals.",
        widget=forms.TextInput(attrs={"autocomplete": "off", "autofocus": True}),
    )


class FenceForm(ConsoleForm):
    version = edition_field()
    fenced = forms.ChoiceField(
        choices=[("no", "In any region"), ("yes", "Only in these regions")],
        widget=forms.RadioSelect,
    )
    regions = forms.MultipleChoiceField(required=False, widget=forms.CheckboxSelectMultiple)
    more = WordsField(
        label="Other regions",
        required=False,
        help_text="As your endpoints spell them, such as eu-west-1. Part several by commas.",
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )

    def __init__(self, *args: Any, known: dict[str, int], **kwargs: Any) -> None:
        """`known`: regions to tick, with the number of endpoints that stand in each."""
        super().__init__(*args, **kwargs)
        choices = [(region, f"{region} ({count})") for region, count in sorted(known.items())]
        self.fields["regions"].choices = choices  # type: ignore[attr-defined]

    def clean_more(self) -> list[str]:
        regions: list[str] = self.cleaned_data["more"]
        wrong = [name for name in regions if len(name) > REGION_MAX or not REGION.fullmatch(name)]
        if wrong:
            raise ValidationError(
                f"“{wrong[0]}” is not a region name. Use lower-case letters, digits and single hyphens, "
                f"such as eu-west-1, at most {REGION_MAX} characters."
            )
        return regions

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        chosen = [*cleaned.get("regions", []), *cleaned.get("more", [])]
        if cleaned.get("fenced") == "yes" and not chosen and "more" not in self.errors:
            self.add_error(
                "regions", "Choose at least one region. To refuse everything, suspend the tenant."
            )
        if len(chosen) > REGIONS_MAX:
            self.add_error("more", f"At most {REGIONS_MAX} regions.")
        return cleaned

    def allowed(self) -> tuple[str, ...] | None:
        """The regions chosen; None: no fence."""
        data = self.cleaned_data
        if data["fenced"] == "no":
            return None
        return tuple(dict.fromkeys([*data["regions"], *data["more"]]))
