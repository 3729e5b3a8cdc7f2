"""Forms drawn by the design system, and fields for the values the product speaks of."""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation
from typing import Any, ClassVar

from django import forms
from django.core.exceptions import ValidationError

MICRO = 1_000_000
MAX_MICROUSD = 9_000_000_000_000_000
_SEPARATORS = re.compile(r"[\s,;]+")


class ConsoleForm(forms.Form):
    """Controls get the classes of the design system; the browser's own validation stays off, ours is in words."""

    use_required_attribute = False
    headline = ""
    """What the summary says instead of how many fields need a change."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("label_suffix", "")
        super().__init__(*args, **kwargs)
        for field in self.fields.values():
            _dress(field)
            if field.label:
                field.error_messages["required"] = f"Enter the {str(field.label).lower()}."


def _dress(field: forms.Field) -> None:
    widget = field.widget
    if isinstance(widget, forms.CheckboxInput | forms.CheckboxSelectMultiple | forms.RadioSelect):
        return
    kind = "select" if isinstance(widget, forms.Select) else "input"
    widget.attrs["class"] = f"{kind} {widget.attrs.get('class', '')}".strip()


class MoneyField(forms.Field):
    """Dollars as people write them (`12.50`, `$1,000`), kept as integer micro-dollars."""

    default_error_messages: ClassVar[dict[str, Any]] = {
        "invalid": "Enter an amount in dollars, such as 12.50.",
        "negative": "An amount cannot be below $0.00.",
        "precise": "The smallest amount is $0.000001.",
        "large": "That is more than the ledger can hold. Enter less than $9,000,000,000.",
    }

    def __init__(self, **options: Any) -> None:
        options.setdefault(
            "widget", forms.TextInput(attrs={"inputmode": "decimal", "autocomplete": "off"})
        )
        super().__init__(**options)

    def to_python(self, value: Any) -> int | None:
        text = str(value or "").strip().removeprefix("$").replace(",", "").strip()
        if not text:
            return None
        # Decimal would also read "NaN", "1e9" and digits of other scripts.
        if not re.fullmatch(r"[+-]?[0-9]*\.?[0-9]*", text) or not re.search("[0-9]", text):
            raise ValidationError(self.error_messages["invalid"], code="invalid")
        return self._micro(text)

    def _micro(self, text: str) -> int:
        try:
            amount = Decimal(text) * MICRO
        except InvalidOperation:
            raise ValidationError(self.error_messages["invalid"], code="invalid") from None
        if amount < 0:
            raise ValidationError(self.error_messages["negative"], code="negative")
        if amount > MAX_MICROUSD:
            raise ValidationError(self.error_messages["large"], code="large")
        if amount != int(amount):
            raise ValidationError(self.error_messages["precise"], code="precise")
        return int(amount)

    def prepare_value(self, value: Any) -> Any:
        return dollars(value) if isinstance(value, int) else value


def dollars(microusd: int) -> str:
    """What a person would type for it: `12.50`, `0.000042`."""
    whole, part = divmod(microusd, MICRO)
    digits = f"{part:06d}".rstrip("0").ljust(2, "0")
    return f"{whole}.{digits}"


class WordsField(forms.CharField):
    """Several words in one text field, parted by commas, spaces or new lines; each once, in the order given."""

    def __init__(self, **options: Any) -> None:
        options.setdefault("max_length", 4000)
        super().__init__(**options)

    def clean(self, value: Any) -> list[str]:
        text = super().clean(value)
        return list(dict.fromkeys(word for word in _SEPARATORS.split(text or "") if word))

    def prepare_value(self, value: Any) -> Any:
        return ", ".join(value) if isinstance(value, list | tuple) else value


class CountField(forms.IntegerField):
    """A whole number of 0 or more that fits the database. Empty means "no limit", which is not 0."""

    def __init__(self, **options: Any) -> None:
        options.setdefault("min_value", 0)
        options.setdefault("max_value", 2**53)
        options.setdefault("required", False)
        options.setdefault(
            "widget",
            forms.TextInput(
                attrs={"inputmode": "numeric", "class": "input--num", "autocomplete": "off"}
            ),
        )
        options.setdefault("error_messages", {"invalid": "Enter a whole number."})
        super().__init__(**options)
