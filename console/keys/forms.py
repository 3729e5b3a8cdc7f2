"""Forms for API keys."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from typing import Any

from django import forms
from django.utils import timezone

from console.budgets.models import BudgetMode, Window
from console.ui.edition import edition_field
from console.ui.forms import ConsoleForm, CountField, MoneyField, WordsField

NAME_MAX = 120
DEFAULT_LIFE = timedelta(days=90)
GRACES = [
    ("0", "Stops at once"),
    ("3600", "Works one more hour"),
    ("86400", "Works one more day"),
    ("604800", "Works seven more days"),
]


class KeyFields(ConsoleForm):
    """What can be set on a new key and changed on an old one."""

    name = forms.CharField(
        label="Name",
        max_length=NAME_MAX,
        help_text="The application that will use it.",
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )
    every_model = forms.ChoiceField(
        choices=[("yes", "Every model"), ("no", "Only these")], widget=forms.RadioSelect
    )
    models = forms.MultipleChoiceField(required=False, widget=forms.CheckboxSelectMultiple)
    more_models = WordsField(
        label="Other models",
        required=False,
        help_text="Public names, parted by commas.",
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )
    requests_per_minute = CountField(label="Requests per minute")
    tokens_per_minute = CountField(label="Tokens per minute")
    concurrency = CountField(label="At the same time")
    expires_on = forms.DateField(
        label="Expires at the end of",
        required=False,
        help_text="UTC. Empty: never.",
        widget=forms.DateInput(attrs={"type": "date"}, format="%Y-%m-%d"),
    )

    def __init__(self, *args: Any, known_models: list[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["models"].choices = [(name, name) for name in known_models]  # type: ignore[attr-defined]

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        chosen = [*cleaned.get("models", []), *cleaned.get("more_models", [])]
        if cleaned.get("every_model") == "no" and not chosen and "more_models" not in self.errors:
            self.add_error("models", "Choose at least one model, or let it use every model.")
        return cleaned

    def clean_expires_on(self) -> datetime | None:
        found = self.cleaned_data["expires_on"]
        if found is None:
            return None
        end = datetime.combine(found, time(23, 59, 59), UTC)
        if end <= timezone.now():
            raise forms.ValidationError(
                "This day has passed. Choose a later one, or revoke the key."
            )
        return end

    def values(self) -> dict[str, Any]:
        """As `KeySpec` and `KeyPatch` want it."""
        data = self.cleaned_data
        chosen = tuple(dict.fromkeys([*data["models"], *data["more_models"]]))
        limits = ("requests_per_minute", "tokens_per_minute", "concurrency")
        return {
            "name": data["name"],
            "models": None if data["every_model"] == "yes" else chosen,
            "rate_limits": {name: data[name] for name in limits},
            "expires_at": data["expires_on"],
        }


class KeyForm(KeyFields):
    tenant = forms.ChoiceField(label="Tenant")
    budget_limit = MoneyField(
        label="Budget", required=False, help_text="Empty: only the budgets of its tenant bind it."
    )
    budget_window = forms.ChoiceField(
        label="Window", choices=[(w.value, w.label) for w in Window], initial=Window.MONTH
    )
    budget_mode = forms.ChoiceField(
        label="Beyond it",
        choices=[(BudgetMode.HARD, "Refuse"), (BudgetMode.SOFT, "Warn")],
        initial=BudgetMode.HARD,
    )

    def __init__(self, *args: Any, tenants: list[tuple[str, str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["tenant"].choices = tenants  # type: ignore[attr-defined]

    def budget(self) -> dict[str, Any] | None:
        data = self.cleaned_data
        if data["budget_limit"] is None:
            return None
        # A key's name may fill a budget's; the word after it must still fit.
        return {
            "limit_microusd": data["budget_limit"],
            "window": data["budget_window"],
            "mode": data["budget_mode"],
            "name": f"{data['name'][: NAME_MAX - 10]} budget",
        }


class KeyEditForm(KeyFields):
    version = edition_field()


class RotateForm(ConsoleForm):
    grace_s = forms.ChoiceField(
        label="The old secret",
        choices=GRACES,
        initial="86400",
        help_text="Long enough to bring the new one to every copy of the application.",
    )
