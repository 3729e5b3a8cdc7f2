"""The chip in the top bar: which version is the newest, and how many workers run it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from django.urls import reverse

from console.errors import Unavailable
from console.studio.selectors import Worker, version_newest, workers

Tone = Literal["ok", "warn", "bad", "unknown"]


@dataclass(frozen=True, slots=True)
class PolicyStatus:
    tone: Tone
    text: str
    title: str
    poll_url: str


def policy_status() -> PolicyStatus:
    """Says "unknown" where nobody can be asked; never the last good answer."""
    version = version_newest()
    tone, counted, title = _counted(version)
    return PolicyStatus(tone, f"v{version} · {counted}", title, reverse("shell:policy-chip"))


def signed_out() -> PolicyStatus:
    """What a page says whose session has ended; strangers hear nothing about versions and workers."""
    title = "Your session has ended. Sign in again in another tab to keep what is typed here."
    return PolicyStatus("warn", "signed out", title, reverse("shell:policy-chip"))


def _counted(version: int) -> tuple[Tone, str, str]:
    try:
        rows = workers()
    except Unavailable:
        return (
            "unknown",
            "workers unknown",
            "Redis cannot be asked; workers go on with what they have.",
        )
    if not rows:
        return "unknown", "no worker", "No gateway worker has reported yet."
    same = sum(row.converged for row in rows)
    counted = f"{same} of {len(rows)} worker{'s' if len(rows) != 1 else ''}"
    verb = "runs" if len(rows) == 1 else "run"
    return _tone(rows), counted, f"{counted} {verb} policy version {version}, the newest."


def _tone(rows: list[Worker]) -> Tone:
    if any(row.state == "nack" for row in rows):
        return "bad"
    if all(row.state == "unknown" for row in rows):
        return "unknown"
    return "ok" if all(row.converged for row in rows) else "warn"
