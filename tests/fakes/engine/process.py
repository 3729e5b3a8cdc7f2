"""Fake engines in a process of their own, driven from a test over the control port."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx
import msgspec

from tests.fakes.engine.options import EngineOptions
from tests.fakes.engine.truth import Record, read_truth

START_TIMEOUT_S = 20.0
ROOT = Path(__file__).resolve().parents[3]


class EngineHandle:
    """One engine of the process."""

    def __init__(self, control: httpx.Client, number: int, url: str, name: str) -> None:
        self._control = control
        self._path = f"/engines/{number}"
        self.url = url
        self.name = name

    def set_timing(self, **fields: Any) -> None:
        self._call("PATCH", "/timing", fields)

    def set_limits(self, **fields: Any) -> None:
        self._call("PATCH", "/limits", fields)

    def set_faults(self, **fields: Any) -> None:
        self._call("PATCH", "/faults", fields)

    def clear_faults(self) -> None:
        self._call("DELETE", "/faults")

    def kill(self) -> None:
        """The engine dies as by kill -9, its process and siblings live on."""
        self._call("POST", "/kill")

    def revive(self) -> None:
        self._call("POST", "/revive")

    def state(self) -> dict[str, Any]:
        return self._call("GET", "")

    def _call(self, method: str, path: str, fields: dict[str, Any] | None = None) -> dict[str, Any]:
        answer = self._control.request(method, self._path + path, json=fields)
        if answer.is_error:
            raise ValueError(answer.json()["error"])
        found: dict[str, Any] = answer.json()
        return found


class FakeEngineProcess:
    """`count` engines alike on ports of their own, with one truth log.

    with FakeEngineProcess(EngineOptions(), tmp_path / "truth.jsonl", count=4) as fleet:
        fleet.engines[0].set_faults(hang=True)
    """

    def __init__(self, options: EngineOptions, truth: Path, *, count: int = 1) -> None:
        self._options = options
        self._count = count
        self.truth_path = truth
        self.engines: list[EngineHandle] = []

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def urls(self) -> list[str]:
        return [engine.url for engine in self.engines]

    def start(self) -> None:
        """Start and wait until all ports listen.

        Raises:
            RuntimeError: The process ended instead of coming up.
        """
        command = [
            sys.executable,
            "-m",
            "tests.fakes.engine",
            "--count",
            str(self._count),
            "--port",
            "0",
        ]
        command += [
            "--truth",
            str(self.truth_path),
            "--options",
            msgspec.json.encode(self._options).decode(),
        ]
        self._process = subprocess.Popen(
            command,
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            env=dict(os.environ),
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._process.stdout.close()
            raise RuntimeError(f"the fake engines did not start, exit code {self._process.wait()}")
        told = msgspec.json.decode(line)
        self._control = httpx.Client(
            base_url=told["control"], timeout=START_TIMEOUT_S, trust_env=False
        )
        self.engines = [
            EngineHandle(self._control, number, engine["url"], engine["name"])
            for number, engine in enumerate(told["engines"])
        ]

    def stop(self) -> None:
        self._control.close()
        self._process.terminate()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def records(self) -> list[Record]:
        return read_truth(self.truth_path)
