"""The calendar of budgets as the limits know it; the console shows the same one."""

from __future__ import annotations

from policies.schema.window import NEVER_MS, Window, window_at

__all__ = ["NEVER_MS", "Window", "window_at"]
