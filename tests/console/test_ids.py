from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.utils import timezone

from console import ids


def test_an_id_says_what_it_names_and_fits_the_contract() -> None:
    assert re.fullmatch(r"key_[0-9A-HJKMNP-TV-Z]{26}", ids.new_id("key"))


def test_ids_are_not_repeated() -> None:
    assert len({ids.new_id("x") for _ in range(10_000)}) == 10_000


def test_ids_sort_by_time_of_creation(monkeypatch: pytest.MonkeyPatch) -> None:
    now = timezone.now()
    moments = (now + timedelta(milliseconds=step) for step in range(20))
    monkeypatch.setattr(timezone, "now", lambda: next(moments))
    found = [ids.new_id("x") for _ in range(20)]
    assert found == sorted(found)
