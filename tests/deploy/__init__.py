"""Tests of what stands in deploy/."""

from __future__ import annotations
