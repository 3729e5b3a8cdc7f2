"""Idempotency-Key: a POST that is sent again gets the first answer and does nothing a second time."""

from __future__ import annotations

import hashlib
import hmac
import os
import re
from collections.abc import Callable
from typing import Any, Final

import orjson
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from django.conf import settings
from django.db import IntegrityError, transaction
from rest_framework.request import Request
from rest_framework.response import Response

from console.accounts.models import StoredAnswer
from console.errors import Conflict
from console.rest.problems import Malformed

HEADER: Final = "Idempotency-Key"
_SHAPE: Final = re.compile(r"[\x21-\x7e]{1,255}")
_NONCE_BYTES: Final = 12


def once(request: Request, work: Callable[[], Response]) -> Response:
    """Runs `work` and keeps its answer in the same transaction, or gives the answer that is kept.

    A second request that comes while the first is at work waits for it at the unique index. An error keeps nothing,
    so it can be tried again. The answer is sealed with the caller's Idempotency-Key, which is not stored.
    """
    name = request.headers.get(HEADER)
    if name is None:
        return work()
    if not _SHAPE.fullmatch(name):
        raise Malformed(
            f"{HEADER} must be 1 to 255 visible ASCII characters.", "invalid_idempotency_key"
        )
    digest, fingerprint = (
        _digest(request, name),
        hashlib.sha256(orjson.dumps(request.data)).hexdigest(),
    )
    try:
        with transaction.atomic():
            claim = StoredAnswer.objects.create(
                digest=digest, request_sha256=fingerprint, status=0, body=b""
            )
            answer = work()
            claim.status, claim.body = answer.status_code, _seal(name, orjson.dumps(answer.data))
            claim.save(update_fields=["status", "body"])
            return answer
    except IntegrityError:
        kept = StoredAnswer.objects.filter(pk=digest).first()
        if kept is None:
            raise
    return _repeat(name, kept, fingerprint)


def _repeat(name: str, kept: StoredAnswer, fingerprint: str) -> Response:
    if kept.request_sha256 != fingerprint:
        raise Conflict(
            f"This {HEADER} was used for another request.", code="idempotency_key_reused"
        )
    document = orjson.loads(_unseal(name, bytes(kept.body)))
    return Response(document, status=kept.status, headers={"Idempotent-Replayed": "true"})


def _digest(request: Request, name: str) -> str:
    caller: Any = request.user
    parts = (caller.name, request.method or "", request.path, name)
    return hmac.digest(settings.ACE_KEY_PEPPER, "\0".join(parts).encode(), "sha256").hex()


def _key(name: str) -> bytes:
    return hmac.digest(settings.ACE_KEY_PEPPER, b"stored answer\0" + name.encode(), "sha256")


def _seal(name: str, body: bytes) -> bytes:
    nonce = os.urandom(_NONCE_BYTES)
    return nonce + AESGCM(_key(name)).encrypt(nonce, body, None)


def _unseal(name: str, sealed: bytes) -> bytes:
    return AESGCM(_key(name)).decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], None)
