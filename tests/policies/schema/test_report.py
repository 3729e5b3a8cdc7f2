from __future__ import annotations

import msgspec
import pytest

from policies.schema.report import WorkerReport

REPORT = WorkerReport(
    id="host-0-4711",
    build="0.1.0",
    pid=4711,
    desired_version=4,
    actual_version=3,
    state="nack",
    reason="snapshot_hash_mismatch",
    ack_ms=None,
    compile_ms=12.5,
    heartbeat_ms=1_800_000_000_000,
    requests_total=10,
    in_flight=1,
)


def test_what_a_worker_says_arrives_as_it_was_said() -> None:
    assert msgspec.json.decode(msgspec.json.encode(REPORT), type=WorkerReport) == REPORT


def test_a_state_nobody_knows_is_refused() -> None:
    said = msgspec.json.encode(REPORT).replace(b'"nack"', b'"fine"')
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(said, type=WorkerReport)
