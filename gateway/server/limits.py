"""What one client connection may cost us. Every number is checked by the protocol class; none is a hint."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """Sizes in bytes, times in seconds.

    `write_high_bytes` plus one upstream read (`transport.READ_BYTES`) is the most one stream keeps in user space.
    """

    allowed_hosts: frozenset[bytes] = frozenset((b"localhost", b"127.0.0.1", b"[::1]"))
    """Lower-case host names without port. `*` allows every well-formed one."""
    url_bytes: int = 8 << 10
    header_bytes: int = 32 << 10
    header_count: int = 100
    body_bytes: int = 20 << 20
    pipelined: int = 16
    refused_body_bytes: int = 64 << 10
    """A refused request's body is read up to here to keep the connection; beyond it the connection is closed."""
    write_high_bytes: int = 24 << 10
    head_s: float = 10.0
    body_s: float = 30.0
    """A body must be complete by then, unless it comes at `body_rate` or faster."""
    body_rate: int = 1 << 10
    """Bytes a second that extend `body_s`."""
    idle_s: float = 75.0
    stall_s: float = 60.0
    """A client that reads nothing for this long is cut."""
    linger_s: float = 1.0
    """How long unread input is swallowed after a refusal, so that the answer is not lost to a reset."""
    sweep_s: float = 0.5
    connections: int = 16_384
