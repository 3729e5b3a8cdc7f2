"""N workers on one listening socket. The socket belongs to the supervisor, so connections wait for whoever lives.

Workers are forked from a process that has imported everything and started nothing: one that dies is back within
milliseconds. A worker dies with its supervisor, whatever kills that.
"""

from __future__ import annotations

import ctypes
import errno
import gc
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from typing import Final, NoReturn

import uvicorn

from gateway import log as logs
from gateway.app import build_app
from gateway.server.protocol import protocol_factory
from gateway.server.uvicorn_http import GuardedHttp
from gateway.settings import Settings, SettingsError

BACKLOG: Final = 4096
PR_SET_PDEATHSIG: Final = 1
CRASH_WINDOW_S: Final = 1.0
"""A worker that lived shorter than this is started again only after as long a pause."""
KILL_AFTER_S: Final = 5.0
SWITCH_INTERVAL_S: Final = 0.002
"""A snapshot is built in a thread beside the event loop: hand the interpreter back sooner than the default 5 ms."""

log: Final = logging.getLogger(__name__)


class PortInUseError(SettingsError):
    """One sentence for the person who started the process."""


def listen(settings: Settings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.listen_host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((settings.listen_host, settings.port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        where = f"{settings.listen_host}:{settings.port}"
        if error.errno == errno.EADDRINUSE:
            raise PortInUseError(
                f"Port {where} is in use; set ACE_GATEWAY_PORT to a free one."
            ) from error
        raise PortInUseError(f"Cannot listen on {where}: {error.strerror}.") from error
    listener.setblocking(False)  # noqa: FBT003 - the standard library's signature
    return listener


class Supervisor:
    def __init__(
        self, settings: Settings, run_worker: Callable[[Settings, int, socket.socket], None]
    ) -> None:
        self._settings, self._run_worker = settings, run_worker
        self._listener = listen(settings)
        self._workers: dict[int, tuple[int, float]] = {}
        """Process -> (slot, monotonic start)."""
        self._stopping = False
        self._exit_code = 0

    def run(self) -> int:
        """Until a signal ends it; the exit status."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        gc.collect()
        gc.freeze()  # what was imported is shared with the workers and not walked by their collectors
        where = "{}:{}".format(*self._listener.getsockname()[:2])
        log.info("listening", extra={"address": where, "workers": self._settings.workers})
        for slot in range(self._settings.workers):
            self._spawn(slot)
        while self._workers:
            self._reap()
        self._listener.close()
        return self._exit_code

    def _spawn(self, slot: int) -> None:
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            self._become_worker(slot, parent)
        self._workers[pid] = slot, time.monotonic()

    def _become_worker(self, slot: int, parent: int) -> NoReturn:
        code = 1
        try:
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, signal.SIG_DFL)
            die_with(parent)
            self._run_worker(self._settings, slot, self._listener)
            code = 0
        except KeyboardInterrupt:
            code = 0
        except BaseException as error:
            log.critical("worker failed: %s", error, extra={"slot": slot}, exc_info=error)
        finally:
            sys.stderr.flush()
            os._exit(code)

    def _reap(self) -> None:
        """Wait for a worker to end; start it again unless we are stopping."""
        try:
            pid, status = os.waitpid(-1, 0)
        except InterruptedError:
            return
        except ChildProcessError:
            self._workers.clear()
            return
        found = self._workers.pop(pid, None)
        if found is None or self._stopping:
            return
        slot, began = found
        log.error(
            "worker died; starting another", extra={"slot": slot, "pid": pid, "status": status}
        )
        lived_s = time.monotonic() - began
        if lived_s < CRASH_WINDOW_S:
            time.sleep(CRASH_WINDOW_S - lived_s)
        if not self._stopping:
            self._spawn(slot)

    def _stop(self, _number: int, _frame: object) -> None:
        """First signal: let workers drain. A further one, or the drain limit, ends them."""
        if self._stopping:
            self._signal(signal.SIGKILL)
            return
        self._stopping = True
        self._signal(signal.SIGTERM)
        signal.signal(signal.SIGALRM, self._stop)
        signal.alarm(max(1, int(self._settings.drain_s + KILL_AFTER_S)))

    def _signal(self, number: int) -> None:
        for pid in tuple(self._workers):
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                continue


def die_with(parent: int) -> None:
    """Have the kernel end this process when its parent ends, and make sure the parent did not end just before."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        log.warning("workers will outlive a killed supervisor on this system")
    if os.getppid() != parent:
        os._exit(1)


def run_worker(settings: Settings, slot: int, listener: socket.socket) -> None:
    """Serve until SIGTERM."""
    import uvloop

    logs.configure(node=settings.node, slot=slot, pid=os.getpid())
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    gateway = build_app(settings, slot)
    own = settings.http == "own"
    config = uvicorn.Config(
        gateway if own else gateway.any_server,
        http=protocol_factory(gateway.door, gateway.limits) if own else GuardedHttp,
        ws="none",
        interface="asgi3",
        lifespan="on",
        loop="uvloop",
        access_log=False,
        log_config=None,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=int(settings.drain_s),
        backlog=BACKLOG,
    )
    server = uvicorn.Server(config)
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    uvloop.run(server.serve(sockets=[listener]))
