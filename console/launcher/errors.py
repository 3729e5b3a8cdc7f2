"""The one error of the launcher: a line a person can act on."""

from __future__ import annotations


class LauncherError(Exception):
    """Shown as its message alone, without a traceback; the launcher then ends with exit code 1."""
