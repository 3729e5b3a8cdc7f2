"""The one way to start a task: it has a name, is kept alive, and its failure is never silent."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, Final

AGAIN_S: Final = 0.2
log: Final = logging.getLogger(__name__)
_running: Final[set[asyncio.Task[Any]]] = set()


def spawn(coroutine: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
    """Start `coroutine`; the event loop itself keeps only a weak reference and would let it vanish."""
    task = asyncio.get_running_loop().create_task(coroutine, name=name)
    _running.add(task)
    task.add_done_callback(_ended)
    return task


async def cancel(*tasks: asyncio.Task[Any] | None) -> None:
    """Cancel and wait until each is really over.

    Asked again until it is: redis-py now and then swallows a cancellation, and a stop must not wait for ever.
    """
    live = {task for task in tasks if task is not None}
    pending = live
    while pending:
        for task in pending:
            task.cancel()
        _, pending = await asyncio.wait(pending, timeout=AGAIN_S)
    await asyncio.gather(*live, return_exceptions=True)


def _ended(task: asyncio.Task[Any]) -> None:
    _running.discard(task)
    if task.cancelled():
        return
    error = task.exception()
    if error is not None:
        log.error("task failed", extra={"task": task.get_name()}, exc_info=error)
