from __future__ import annotations

import pytest
from pydantic import ValidationError

from policies.schema.snapshot import KeyDigest, PolicyDocument, Pool, RateLimits, Snapshot


@pytest.mark.parametrize("scope", ["global", "tenants/ten_1", "keys/key_1", "models/org/m:7b"])
def test_the_four_scopes_are_named_in_one_way(scope: str) -> None:
    assert PolicyDocument(scope=scope).scope == scope


@pytest.mark.parametrize("scope", ["", "Global", "tenants/", "teams/x", "global/x"])
def test_another_scope_is_refused(scope: str) -> None:
    with pytest.raises(ValidationError):
        PolicyDocument(scope=scope)


def test_an_unset_limit_is_unlimited_and_zero_is_kept() -> None:
    assert RateLimits().requests_per_minute is None
    assert RateLimits(requests_per_minute=0).requests_per_minute == 0


def test_a_key_is_never_carried_in_clear() -> None:
    with pytest.raises(ValidationError):
        KeyDigest(digest="ace_live_" + "a" * 49)


def test_a_pool_without_a_price_has_none_and_not_zero() -> None:
    assert Pool(id="pool_1", name="p", model="m", engine="vllm").price is None


def test_a_snapshot_of_another_schema_is_refused() -> None:
    with pytest.raises(ValidationError):
        Snapshot.model_validate_json(
            '{"schema_version": 2, "version": 1, "policy_revision": 0, "created_at_ms": 0}'
        )
