"""`make fakes`: one engine of each personality on fixed ports, until Ctrl-C, with a word on how to drive them."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from tempfile import mkdtemp

import uvloop

from tests.fakes.engine import H100, EngineOptions, FakeEngine, TruthLog
from tests.fakes.engine.control import ControlServer
from tests.fakes.engine.options import Personality

FIRST_PORT = 9101
CONTROL_PORT = 9100
PERSONALITIES: tuple[Personality, ...] = ("vllm", "sglang", "trtllm")
MODEL = "fake-model"

HELP = """
Truth log (what each engine accepted and produced): {truth}
Control port: {control}

Try:
  curl {vllm}/v1/chat/completions -H 'content-type: application/json' \\
    -d '{{"model": "{model}", "messages": [{{"role": "user", "content": "Hello"}}], "stream": true}}'
  curl {vllm}/metrics
  curl -X PATCH  {control}/engines/0/faults -d '{{"error_rate": 0.2, "error_status": 429, "retry_after": "2"}}'
  curl -X PATCH  {control}/engines/0/timing -d '{{"decode_tokens_per_s": 20}}'
  curl -X DELETE {control}/engines/0/faults
  curl -X POST   {control}/engines/1/kill      # and .../revive
Every control is described in tests/fakes/engine/control.py. Ctrl-C stops all.
"""


async def serve(first_port: int, control_port: int) -> None:
    truth = TruthLog(Path(mkdtemp(prefix="fake-engines-")) / "truth.jsonl")
    engines = [
        FakeEngine(
            EngineOptions(
                personality=kind,
                name=kind,
                models=(MODEL,),
                timing=H100,
                kv_events=kind != "trtllm",
            ),
            truth=truth,
            port=first_port + number if first_port else 0,
        )
        for number, kind in enumerate(PERSONALITIES)
    ]
    control = ControlServer(engines, truth, control_port)
    for engine in engines:
        await engine.start()
        print(
            f"{engine.options.personality:8} {engine.url}  metrics at {engine.dialect.metrics_path}"
        )
    await control.listener.open()
    where = f"http://127.0.0.1:{control.listener.port}"
    print(
        HELP.format(truth=truth.path, control=where, vllm=engines[0].url, model=MODEL), flush=True
    )
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, control.exit.set)
    await control.exit.wait()
    for engine in engines:
        await engine.stop()
    await control.listener.close()


def main() -> int:
    try:
        uvloop.run(
            serve(
                int(os.environ.get("ACE_FAKES_PORT", FIRST_PORT)),
                int(os.environ.get("ACE_FAKES_CONTROL_PORT", CONTROL_PORT)),
            )
        )
    except OSError as error:
        print(
            f"The fake engines cannot start: {error}. Set ACE_FAKES_PORT and ACE_FAKES_CONTROL_PORT to others."
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
