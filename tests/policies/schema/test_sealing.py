from __future__ import annotations

import base64
import hashlib

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.compiler import compile_snapshot
from policies.schema import sealing
from policies.schema.sealing import (
    SealError,
    canonical_json,
    seal,
    seal_secret,
    unseal,
    unseal_secret,
)
from policies.schema.snapshot import PolicyDocument, Snapshot
from tests.policies.inventory import document, inventory

SECRET = b"s" * 32
SNAPSHOT = compile_snapshot(
    inventory(),
    [document("global", "circuit_breaker", mode="enforce")],
    version=7,
    policy_revision=3,
    created_at_ms=1_800_000_000_000,
)
ENVELOPE = seal(SNAPSHOT, SECRET)


def reason(envelope: bytes, secret: bytes = SECRET) -> str:
    with pytest.raises(SealError) as caught:
        unseal(envelope, secret)
    return caught.value.reason


def test_what_was_sealed_comes_back_with_its_hash() -> None:
    snapshot, digest = unseal(ENVELOPE, SECRET)
    assert snapshot == SNAPSHOT
    assert f'"sha256":"{digest}"'.encode() in ENVELOPE


@given(position=st.integers(0, len(ENVELOPE) - 1), flip=st.integers(1, 255))
def test_no_flipped_byte_is_accepted_or_crashes(position: int, flip: int) -> None:
    changed = bytearray(ENVELOPE)
    changed[position] ^= flip
    try:
        snapshot, _ = unseal(bytes(changed), SECRET)
    except SealError:
        return
    # A flip may leave the meaning alone, such as a space for a newline between header tokens.
    assert snapshot == SNAPSHOT
    assert position < ENVELOPE.index(b"\n")


@given(st.integers(0, len(ENVELOPE) - 1))
def test_no_truncated_envelope_is_accepted(length: int) -> None:
    assert reason(ENVELOPE[:length]) in ("snapshot_truncated", "snapshot_hash_mismatch")


def test_an_envelope_of_another_installation_is_refused() -> None:
    assert reason(seal(SNAPSHOT, b"other" * 8)) == "snapshot_signature_mismatch"


def test_a_version_that_was_not_signed_is_refused() -> None:
    replayed = ENVELOPE.replace(b'"version":7', b'"version":8', 1)
    assert reason(replayed) == "snapshot_signature_mismatch"


def test_a_schema_of_another_release_is_told_apart() -> None:
    newer = ENVELOPE.replace(b'"schema_version":1', b'"schema_version":2', 1)
    assert reason(newer) == "schema_version_unknown"


def test_an_envelope_too_large_is_not_even_hashed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealing, "MAX_SNAPSHOT_BYTES", len(ENVELOPE) - 1)
    assert reason(ENVELOPE) == "snapshot_too_large"


def signed(body: bytes, version: int) -> bytes:
    """An envelope that only a holder of the secret can make, around any body."""
    digest = hashlib.sha256(body).hexdigest()
    signature = sealing._sign(SECRET, version, digest)
    header = {"schema_version": 1, "version": version, "sha256": digest, "hmac": signature}
    return orjson.dumps(header) + b"\n" + body


def test_a_signed_body_that_is_no_snapshot_is_refused() -> None:
    assert reason(signed(b'{"version": "x"}', 7)) == "snapshot_schema_invalid"
    assert reason(signed(b"not json", 7)) == "snapshot_schema_invalid"


def test_header_and_body_must_name_the_same_version() -> None:
    assert reason(signed(canonical_json(SNAPSHOT), 8)) == "snapshot_version_mismatch"


@pytest.mark.parametrize("head", [b"", b"{}", b"\xff\xfe", b"[1]", b'{"version": "x"}'])
def test_a_header_that_is_none_is_refused(head: bytes) -> None:
    assert reason(head + b"\n{}") == "snapshot_header_invalid"


@given(st.dictionaries(st.sampled_from(["b", "a", "ä"]), st.integers() | st.text(), max_size=3))
def test_canonical_json_does_not_depend_on_the_order_of_keys(settings: dict[str, object]) -> None:
    def spelled(fields: dict[str, object]) -> bytes:
        policy = PolicyDocument(scope="global", skills={"x": fields})
        return canonical_json(SNAPSHOT.model_copy(update={"documents": (policy,)}))

    if all(not isinstance(each, int) or abs(each) < 2**63 for each in settings.values()):
        assert spelled(settings) == spelled(dict(reversed(settings.items())))


def test_canonical_json_survives_a_round_trip_byte_for_byte() -> None:
    body = canonical_json(SNAPSHOT)
    assert canonical_json(Snapshot.model_validate_json(body)) == body


# Secrets ---------------------------------------------------------------------------------------


@given(st.text())
def test_a_secret_comes_back_and_is_not_readable_in_between(plain: str) -> None:
    sealed = seal_secret(plain, SECRET, "pool_1")
    assert unseal_secret(sealed, SECRET, "pool_1") == plain
    raw = base64.b64decode(sealed.rpartition(":")[2])
    assert len(plain) < 4 or plain.encode() not in raw


def test_the_same_secret_is_never_sealed_alike_twice() -> None:
    assert seal_secret("x", SECRET, "pool_1") != seal_secret("x", SECRET, "pool_1")


@pytest.mark.parametrize(("secret", "subject"), [(SECRET, "pool_2"), (b"t" * 32, "pool_1")])
def test_a_secret_moved_to_another_row_or_installation_is_unreadable(
    secret: bytes, subject: str
) -> None:
    with pytest.raises(SealError) as caught:
        unseal_secret(seal_secret("x", SECRET, "pool_1"), secret, subject)
    assert caught.value.reason == "secret_unreadable"


@given(position=st.integers(0, 27), flip=st.integers(1, 255))
def test_no_flipped_byte_of_a_secret_is_accepted(position: int, flip: int) -> None:
    prefix, _, text = seal_secret("x", SECRET, "pool_1").rpartition(":")
    raw = bytearray(base64.b64decode(text))
    raw[position] ^= flip
    with pytest.raises(SealError):
        unseal_secret(f"{prefix}:{base64.b64encode(raw).decode()}", SECRET, "pool_1")


@pytest.mark.parametrize(
    ("sealed", "code"),
    [
        ("sk-plain", "secret_not_sealed"),
        ("sealed:1:", "secret_unreadable"),
        ("sealed:1:not base64!", "secret_unreadable"),
    ],
)
def test_text_that_is_no_sealed_secret_is_refused(sealed: str, code: str) -> None:
    with pytest.raises(SealError) as caught:
        unseal_secret(sealed, SECRET, "pool_1")
    assert caught.value.reason == code
