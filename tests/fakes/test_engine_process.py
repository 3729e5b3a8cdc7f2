"""Fake engines as processes: started, controlled from outside, killed; their truth log outlives them."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import httpx
import pytest

from tests.fakes.engine import EngineOptions, FakeEngineProcess, accepted, outcomes, read_truth
from tests.fakes.test_engine import ASK

pytestmark = pytest.mark.enable_socket


def ask(url: str, request_id: str) -> httpx.Response:
    head = {"x-request-id": request_id}
    return httpx.post(f"{url}/v1/chat/completions", json=ASK, headers=head, trust_env=False)


def test_engines_of_one_process_are_controlled_one_by_one(tmp_path: Path) -> None:
    options = EngineOptions(personality="sglang", models=("fake-model",))
    with FakeEngineProcess(options, tmp_path / "truth.jsonl", count=2) as fleet:
        first, second = fleet.engines
        first.set_faults(error_rate=1.0, error_status=503)
        assert [ask(first.url, "a").status_code, ask(second.url, "b").status_code] == [503, 200]
        first.clear_faults()
        assert ask(first.url, "c").status_code == 200
        with pytest.raises(ValueError, match="no_such_fault"):
            first.set_faults(no_such_fault=1)
        second.kill()
        with pytest.raises(httpx.TransportError):
            ask(second.url, "d")
        second.revive()
        assert ask(second.url, "e").status_code == 200
        assert second.state()["personality"] == "sglang"
    assert list(accepted(fleet.records())) == ["b", "c", "e"]


def test_the_truth_log_survives_kill_9_of_the_engine(tmp_path: Path) -> None:
    with FakeEngineProcess(EngineOptions(), tmp_path / "truth.jsonl") as fleet:
        ask(fleet.urls[0], "kept")
        os.kill(fleet.pid, signal.SIGKILL)
    assert outcomes(fleet.records())["kept"].kind == "finished"


def test_a_torn_last_line_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "truth.jsonl"
    path.write_bytes(b'{"kind":"accepted","at":1.0,"engine":"e","request_id":"x"}\n{"kind":"fini')
    assert [record.request_id for record in read_truth(path)] == ["x"]


def test_an_engine_that_cannot_start_says_so(tmp_path: Path) -> None:
    fleet = FakeEngineProcess(EngineOptions(), tmp_path / "no" / "such" / "folder")
    with pytest.raises(RuntimeError, match="did not start"):
        fleet.start()
