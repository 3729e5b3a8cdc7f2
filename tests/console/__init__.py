"""Tests of console."""

from __future__ import annotations
