from __future__ import annotations

import hashlib
import hmac
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.schema.credentials import Kind, checksum_ok, digest, hint, mint


@pytest.mark.parametrize("kind", ["live", "test", "mgmt"])
def test_a_minted_credential_has_the_documented_shape(kind: Kind) -> None:
    text = mint(kind)
    assert re.fullmatch(rf"ace_{kind}_[0-9A-Za-z]{{49}}", text)
    assert checksum_ok(text)


def test_no_two_minted_credentials_are_equal() -> None:
    assert len({mint("live") for _ in range(200)}) == 200


def test_the_checksum_is_the_same_in_every_release() -> None:
    """Keys live for years: a changed alphabet or checksum would turn every one of them away."""
    assert checksum_ok("ace_live_" + "0" * 43 + "1odXqX")


@given(st.text("0123456789ABCxyz", min_size=43, max_size=43))
def test_the_checksum_is_crc32_in_base62(body: str) -> None:
    unchecked = f"ace_mgmt_{body}"
    assert checksum_ok(unchecked + _reference_checksum(unchecked))


def _reference_checksum(text: str) -> str:
    """CRC-32 (IEEE, reflected) and base62 written out by hand, apart from the code under test."""
    register = 0xFFFFFFFF
    for byte in text.encode():
        register ^= byte
        for _ in range(8):
            register = (register >> 1) ^ (0xEDB88320 if register & 1 else 0)
    number = register ^ 0xFFFFFFFF
    alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
    return "".join(alphabet[number // 62**power % 62] for power in range(5, -1, -1))


@given(position=st.integers(9, 57), replacement=st.sampled_from("0aZ9kQ"))
def test_a_single_mistyped_character_is_noticed(position: int, replacement: str) -> None:
    text = mint("live")
    changed = text[:position] + replacement + text[position + 1 :]
    assert checksum_ok(changed) is (changed == text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ace_live_",
        "sk-proj-abc",
        "ace_prod_" + "0" * 49,
        "Bearer " + "0" * 60,
        "ace_live_" + "é" * 49,
    ],
)
def test_text_of_another_shape_is_no_credential(text: str) -> None:
    assert not checksum_ok(text)


def test_a_trailing_newline_is_not_ignored() -> None:
    assert not checksum_ok(mint("live") + "\n")


def test_the_digest_is_an_hmac_under_the_pepper() -> None:
    expected = hmac.new(b"pepper", b"ace_live_x", hashlib.sha256).hexdigest()
    assert digest(b"pepper", "ace_live_x") == expected
    assert digest(b"other pepper", "ace_live_x") != expected


@given(st.text())
def test_whatever_a_client_sends_has_a_digest(text: str) -> None:
    assert re.fullmatch(r"[0-9a-f]{64}", digest(b"pepper", text))


def test_undecodable_header_bytes_have_a_digest() -> None:
    assert len(digest(b"pepper", b"ace_\xff".decode("utf-8", "surrogateescape"))) == 64


def test_a_hint_gives_too_little_away_to_be_used() -> None:
    text = mint("live")
    assert hint(text) == f"ace_live_…{text[-4:]}"
