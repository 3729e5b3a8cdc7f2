from __future__ import annotations

import pytest

from console.providers import vault

SECRET = b"s" * 32


def test_what_was_locked_opens_again() -> None:
    assert vault.unlock(vault.lock("sk-1", SECRET, "pool_A"), SECRET, "pool_A") == "sk-1"


def test_the_same_key_never_looks_the_same() -> None:
    one, two = (vault.lock("sk-1", SECRET, "pool_A") for _ in range(2))
    assert (one.ciphertext, one.wrapped_key) != (two.ciphertext, two.wrapped_key)
    assert b"sk-1" not in one.ciphertext + one.wrapped_key


@pytest.mark.parametrize(("secret", "pool"), [(b"x" * 32, "pool_A"), (SECRET, "pool_B")])
def test_another_secret_or_another_row_opens_nothing(secret: bytes, pool: str) -> None:
    with pytest.raises(vault.VaultError, match="cannot be opened"):
        vault.unlock(vault.lock("sk-1", SECRET, "pool_A"), secret, pool)


def test_an_edited_byte_is_noticed() -> None:
    sealed = vault.lock("sk-1", SECRET, "pool_A")
    edited = sealed.ciphertext[:-1] + bytes([sealed.ciphertext[-1] ^ 1])
    with pytest.raises(vault.VaultError):
        vault.unlock(vault.Envelope(sealed.wrapped_key, edited), SECRET, "pool_A")
