"""Sign-in, first-run set-up and password change."""

from __future__ import annotations

from typing import Any

from django import forms

from console.ui.forms import ConsoleForm


def _password(label: str, autocomplete: str, help_text: str = "") -> forms.CharField:
    """Passwords are kept as typed: a blank at the end may be meant. Pasting is never refused."""
    widget = forms.PasswordInput(attrs={"autocomplete": autocomplete})
    return forms.CharField(
        label=label, widget=widget, strip=False, max_length=200, help_text=help_text
    )


def _username(**attrs: Any) -> forms.CharField:
    attrs |= {"autocomplete": "username", "autocapitalize": "none", "spellcheck": "false"}
    return forms.CharField(label="User name", max_length=150, widget=forms.TextInput(attrs=attrs))


class SignInForm(ConsoleForm):
    username = _username(autofocus=True)
    password = _password("Password", "current-password")


class TwicePasswordForm(ConsoleForm):
    """A new password is typed twice, because nobody sees it."""

    password = _password(
        "New password",
        "new-password",
        "At least 12 characters, not a common one, not like the name.",
    )
    password_again = _password("New password again", "new-password")

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        first, second = cleaned.get("password"), cleaned.get("password_again")
        if first and second and first != second:
            self.add_error("password_again", "This is not the password above. Type both again.")
        return cleaned


class SetUpForm(TwicePasswordForm):
    token = forms.CharField(
        label="Set-up token",
        max_length=200,
        help_text="Printed by the server when it started; also in secrets/setup_token of its home folder.",
        widget=forms.TextInput(
            attrs={"autocomplete": "off", "spellcheck": "false", "autofocus": True, "class": "mono"}
        ),
    )
    username = _username()
    field_order = ["token", "username", "password", "password_again"]


class PasswordForm(TwicePasswordForm):
    current = _password("Current password", "current-password")
    field_order = ["current", "password", "password_again"]
