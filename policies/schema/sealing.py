"""Sealed snapshots and sealed secrets: what leaves the control plane can be verified, and its
secrets cannot be read.

An envelope is one JSON header line and the snapshot's canonical JSON. The header holds the SHA-256
of the body and an HMAC-SHA256 over both, so a truncated, edited or foreign snapshot is told apart
from a good one before it is parsed.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
from typing import Final

import msgspec
import orjson
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from pydantic import ValidationError

from policies.schema.snapshot import SCHEMA_VERSION, Snapshot

MAX_SNAPSHOT_BYTES: Final = 64 << 20
_SECRET_PREFIX: Final = "sealed:1:"  # noqa: S105 - a format marker, not a secret


class SealError(Exception):
    """A snapshot or secret that must not be used. `reason` is a stable code for the worker's
    NACK.
    """

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason = reason


class EnvelopeHeader(msgspec.Struct):
    schema_version: int
    version: int
    sha256: str
    hmac: str


def canonical_json(snapshot: Snapshot) -> bytes:
    """The one spelling of a snapshot: sorted keys, no spaces, UTF-8."""
    return orjson.dumps(snapshot.model_dump(mode="json"), option=orjson.OPT_SORT_KEYS)


def seal(snapshot: Snapshot, secret: bytes) -> bytes:
    body = canonical_json(snapshot)
    digest = hashlib.sha256(body).hexdigest()
    header = EnvelopeHeader(
        SCHEMA_VERSION, snapshot.version, digest, _sign(secret, snapshot.version, digest)
    )
    return msgspec.json.encode(header) + b"\n" + body


def unseal(envelope: bytes, secret: bytes) -> tuple[Snapshot, str]:
    """The snapshot and its SHA-256, or a SealError that names the first thing wrong."""
    if len(envelope) > MAX_SNAPSHOT_BYTES:
        raise SealError("snapshot_too_large")
    head, separator, body = envelope.partition(b"\n")
    if not separator:
        raise SealError("snapshot_truncated")
    header = _header(head)
    digest = hashlib.sha256(body).hexdigest()
    if not hmac.compare_digest(digest.encode(), header.sha256.encode()):
        raise SealError("snapshot_hash_mismatch")
    signature = _sign(secret, header.version, digest)
    if not hmac.compare_digest(signature.encode(), header.hmac.encode()):
        raise SealError("snapshot_signature_mismatch")
    snapshot = _parse(body)
    if snapshot.version != header.version:
        raise SealError("snapshot_version_mismatch")
    return snapshot, digest


def _header(head: bytes) -> EnvelopeHeader:
    try:
        header = msgspec.json.decode(head, type=EnvelopeHeader)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise SealError("snapshot_header_invalid", str(error)) from error
    if header.schema_version != SCHEMA_VERSION:
        raise SealError("schema_version_unknown", str(header.schema_version))
    return header


def _parse(body: bytes) -> Snapshot:
    try:
        return Snapshot.model_validate_json(body)
    except ValidationError as error:
        raise SealError("snapshot_schema_invalid", str(error.errors()[0]["msg"])) from error


def seal_secret(plain: str, secret: bytes, subject: str) -> str:
    """AES-256-GCM; `subject` (the pool's id) is bound in, so a sealed secret cannot be moved to
    another row.
    """
    nonce = os.urandom(12)
    sealed = AESGCM(_secret_key(secret)).encrypt(nonce, plain.encode(), subject.encode())
    return _SECRET_PREFIX + base64.b64encode(nonce + sealed).decode()


def unseal_secret(sealed: str, secret: bytes, subject: str) -> str:
    if not sealed.startswith(_SECRET_PREFIX):
        raise SealError("secret_not_sealed")
    try:
        raw = base64.b64decode(sealed.removeprefix(_SECRET_PREFIX), validate=True)
        return AESGCM(_secret_key(secret)).decrypt(raw[:12], raw[12:], subject.encode()).decode()
    except (InvalidTag, ValueError) as error:
        raise SealError("secret_unreadable") from error


def _secret_key(secret: bytes) -> bytes:
    return hashlib.sha256(b"ace secret sealing\0" + secret).digest()


def _sign(secret: bytes, version: int, digest: str) -> str:
    return hmac.digest(secret, f"ace snapshot\0{version}\0{digest}".encode(), "sha256").hex()
