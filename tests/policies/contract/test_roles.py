from __future__ import annotations

from typing import get_args

from policies.contract.roles import ROLE_PROTOCOLS, Role


def test_every_role_has_one_protocol_of_one_or_two_methods() -> None:
    assert set(ROLE_PROTOCOLS) == set(get_args(Role))
    assert len(set(ROLE_PROTOCOLS.values())) == len(ROLE_PROTOCOLS)
    for protocol in ROLE_PROTOCOLS.values():
        methods = [name for name in vars(protocol) if not name.startswith("_")]
        assert 1 <= len(methods) <= 2, protocol


def test_no_object_plays_two_roles_by_accident() -> None:
    names = [
        name
        for protocol in ROLE_PROTOCOLS.values()
        for name in vars(protocol)
        if not name.startswith("_")
    ]
    assert len(names) == len(set(names))
