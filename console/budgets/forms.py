"""Forms for budgets."""

from __future__ import annotations

from typing import Any
from zoneinfo import available_timezones

from django import forms

from console.budgets.models import BudgetMode, Window
from console.ui.edition import edition_field
from console.ui.forms import ConsoleForm, MoneyField

MODES = [
    (BudgetMode.HARD, "Hard: refuse beyond it"),
    (BudgetMode.SOFT, "Soft: warn beyond it"),
]


class BudgetEditForm(ConsoleForm):
    """The window stays: another window is another budget."""

    version = edition_field()
    name = forms.CharField(
        label="Name",
        max_length=120,
        help_text="Refusals name it, so that the caller knows whom to ask.",
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
    )
    limit_microusd = MoneyField(label="Limit", help_text="0 refuses everything.")
    mode = forms.ChoiceField(label="Beyond the limit", choices=MODES, widget=forms.Select)


class BudgetForm(BudgetEditForm):
    subject = forms.ChoiceField(label="Binds", widget=forms.Select)
    window = forms.ChoiceField(
        label="Window", choices=[(w.value, w.label) for w in Window], initial=Window.MONTH
    )
    timezone = forms.CharField(
        label="Time zone",
        max_length=64,
        initial="UTC",
        help_text="Where its days, weeks and months begin, such as Europe/Berlin.",
        widget=forms.TextInput(attrs={"list": "timezones", "autocomplete": "off"}),
    )
    field_order = ["subject", "name", "limit_microusd", "mode", "window", "timezone"]

    def __init__(self, *args: Any, subjects: list[tuple[str, str]], **kwargs: Any) -> None:
        """`subjects`: ids of the tenants and keys that may be bound, with their names."""
        super().__init__(*args, **kwargs)
        self.fields["subject"].choices = subjects  # type: ignore[attr-defined]

    def clean_timezone(self) -> str:
        name: str = self.cleaned_data["timezone"]
        if name not in available_timezones():
            raise forms.ValidationError(
                f"There is no time zone “{name}”. Try Europe/Berlin or UTC."
            )
        return name
