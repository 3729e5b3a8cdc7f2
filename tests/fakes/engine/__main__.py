"""`python -m tests.fakes.engine --personality vllm --port 0 --count 2` prints one line of JSON: where everything is."""

from __future__ import annotations

import argparse
import asyncio
import signal
from pathlib import Path

import msgspec
import uvloop

from tests.fakes.engine.control import ControlServer, describe
from tests.fakes.engine.core import FakeEngine
from tests.fakes.engine.options import H100, EngineOptions, Timing, changed
from tests.fakes.engine.truth import TruthLog


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fakes.engine", description=__doc__)
    parser.add_argument("--personality", choices=("vllm", "sglang", "trtllm"), default=None)
    parser.add_argument("--engine-version", default=None, help="engine version to imitate")
    parser.add_argument("--model", action="append", help="served model name, may be repeated")
    parser.add_argument("--port", type=int, default=0, help="first port; 0 takes free ones")
    parser.add_argument("--control-port", type=int, default=0)
    parser.add_argument("--count", type=int, default=1)
    parser.add_argument("--truth", type=Path, default=None, help="truth log, JSON lines")
    parser.add_argument("--options", default="{}", help="EngineOptions as JSON; flags win over it")
    parser.add_argument("--speed", choices=("instant", "h100"), default=None)
    return parser.parse_args()


def options_from(arguments: argparse.Namespace) -> EngineOptions:
    options = msgspec.json.decode(arguments.options, type=EngineOptions)
    given = {
        "personality": arguments.personality,
        "version": arguments.engine_version,
        "models": arguments.model,
        "timing": {"instant": Timing(), "h100": H100, None: None}[arguments.speed],
    }
    fields = {
        name: msgspec.to_builtins(value) for name, value in given.items() if value is not None
    }
    return changed(options, fields)


async def serve(arguments: argparse.Namespace) -> None:
    options, truth = options_from(arguments), TruthLog(arguments.truth)
    engines = [
        FakeEngine(
            changed(options, {"name": f"{options.personality}-{number}"}),
            truth=truth,
            port=arguments.port + number if arguments.port else 0,
        )
        for number in range(arguments.count)
    ]
    control = ControlServer(engines, truth, arguments.control_port)
    for engine in engines:
        await engine.start()
    await control.listener.open()
    where = {
        "control": f"http://127.0.0.1:{control.listener.port}",
        "truth": str(arguments.truth) if arguments.truth else None,
        "engines": [describe(engine) for engine in engines],
    }
    print(msgspec.json.encode(where).decode(), flush=True)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, control.exit.set)
    await control.exit.wait()
    for engine in engines:
        await engine.stop()
    await control.listener.close()


if __name__ == "__main__":
    uvloop.run(serve(parse_arguments()))
