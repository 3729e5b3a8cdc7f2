"""What many tests need: a whole installation of real processes, and waiting for a condition."""

from __future__ import annotations
