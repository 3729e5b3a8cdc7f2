"""The truth log of a fake engine: what it accepted, produced and gave up, one JSON object a line.

Lines are written by one unbuffered append each, before the engine acts on what they say. A killed gateway, test or
sibling engine takes nothing of it away, and several engines may share one file.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

import msgspec

Kind = Literal["accepted", "refused", "started", "finished", "cancelled", "cut", "control"]

HIDDEN_HEADERS = frozenset({"authorization", "x-api-key", "api-key", "cookie"})


class Record(msgspec.Struct, omit_defaults=True):
    """One line. Times are wall clock seconds; `serial` ties the lines of one request together."""

    kind: Kind
    at: float
    engine: str
    serial: int = 0
    """Number of the request in its engine process, from 1."""
    request_id: str = ""
    """The X-Request-Id header, empty when there was none."""
    path: str = ""
    model: str = ""
    stream: bool = False
    status: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    """Tokens produced so far, over all choices."""
    events_sent: int = 0
    """SSE data events handed to the socket."""
    finish_reason: str = ""
    why: str = ""
    """For `refused`, `cut` and `control`: the error code, the fault or the command."""
    headers: dict[str, str] = msgspec.field(default_factory=dict)
    """As received, names in lower case; credentials only as `credential_mark`."""
    fields: tuple[str, ...] = ()
    """Top-level names of the body, in the order received."""
    body: Any = None


def credential_mark(value: str) -> str:
    """How the log shows a credential: enough to tell whether the expected one arrived, not what it was."""
    return "sha256:" + sha256(value.encode()).hexdigest()[:16]


def seen_headers(headers: list[tuple[bytes, bytes]]) -> dict[str, str]:
    seen = {}
    for raw_name, raw_value in headers:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        seen[name] = credential_mark(value) if name in HIDDEN_HEADERS else value
    return seen


class TruthLog:
    """Writer. One instance a process and file."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._encode = msgspec.json.Encoder().encode
        self._records: list[Record] = []
        self._file = -1
        if path is not None:
            self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def write(self, record: Record) -> None:
        if self._file < 0:
            self._records.append(record)
        else:
            os.write(self._file, self._encode(record) + b"\n")

    def records(self) -> list[Record]:
        return list(self._records) if self.path is None else read_truth(self.path)

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def now() -> float:
    return time.time()


def read_truth(path: Path) -> list[Record]:
    """All whole lines of a truth log; a torn last line, left by a killed engine, is not an error."""
    decode = msgspec.json.Decoder(Record).decode
    lines = path.read_bytes().split(b"\n")
    return [decode(line) for line in lines[:-1] if line]


def accepted(records: list[Record]) -> dict[str, Record]:
    """Accepted inference requests by request id.

    Raises:
        ValueError: The same request id was accepted twice, or one came without an id.
    """
    found: dict[str, Record] = {}
    for record in _of_kind(records, "accepted"):
        if not record.request_id or record.request_id in found:
            raise ValueError(f"request id {record.request_id!r} is missing or was accepted twice")
        found[record.request_id] = record
    return found


def outcomes(records: list[Record]) -> dict[str, Record]:
    """The last word on each request that had an id: finished, cancelled, cut or refused."""
    last = ("finished", "cancelled", "cut", "refused")
    return {r.request_id: r for r in records if r.kind in last and r.request_id}


def _of_kind(records: list[Record], kind: Kind) -> Iterator[Record]:
    return (record for record in records if record.kind == kind)
