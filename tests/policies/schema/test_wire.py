from __future__ import annotations

from policies.schema import wire

NAMES = {name: value for name, value in vars(wire).items() if name.isupper()}


def test_no_two_things_meet_under_one_name() -> None:
    assert len(set(NAMES.values())) == len(NAMES)


def test_every_name_is_ours_so_that_one_server_may_be_shared() -> None:
    assert NAMES
    assert all(value.startswith("ace:") for value in NAMES.values())


def test_a_budget_window_has_a_key_of_its_own() -> None:
    one = wire.BUDGET_KEY.format(budget_id="bud_1", window_start_ms=0)
    assert one != wire.BUDGET_KEY.format(budget_id="bud_1", window_start_ms=1)
